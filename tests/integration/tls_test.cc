// Tests of calls by TLS: who is let in, and who is known.

#include "rpc/credentials/tls.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"
#include "tests/testing/test_tls.h"

namespace verbena::end_to_end {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing_support::MakeTestCertificates;
using testing_support::Provider;
using testing_support::TestCertificates;

// Certificates that may be replaced.
class ChangingProvider final : public CertificateProvider {
 public:
  explicit ChangingProvider(TlsCertificates certificates) {
    Set(std::move(certificates));
  }
  void Set(TlsCertificates certificates) {
    const base::MutexLock lock(mutex_);
    current_ = std::make_shared<TlsCertificates>(std::move(certificates));
  }
  std::shared_ptr<const TlsCertificates> Current() const override {
    const base::MutexLock lock(mutex_);
    return current_;
  }

 private:
  mutable base::Mutex mutex_;
  std::shared_ptr<const TlsCertificates> current_ ABSL_GUARDED_BY(mutex_);
};

class TlsTest : public EndToEndTest {
 protected:
  void Serve(std::shared_ptr<const CertificateProvider> provider,
             ClientCertificates wanted = ClientCertificates::kRequire) {
    StartServer([&](ServerBuilder& builder) {
      builder.AddListeningPort(
          Address(0),
          *TlsServerCredentials({.certificate_provider = std::move(provider),
                                 .client_certificates = wanted}),
          &port_);
    });
  }
  void Serve(ClientCertificates wanted = ClientCertificates::kRequire) {
    Serve(Provider(made_.authority.certificate, {made_.server}), wanted);
  }
  std::unique_ptr<EndToEnd::Stub> NewStub(
      std::shared_ptr<ChannelCredentials> credentials,
      const ChannelOptions& options = ChannelOptions()) const {
    return EndToEnd::NewStub(
        CreateChannel(Address(port_), std::move(credentials), options));
  }
  std::shared_ptr<ChannelCredentials> Client(
      std::vector<IdentityKeyCertPair> identity,
      const std::string& server_name = "") const {
    return *TlsCredentials(
        {.certificate_provider =
             Provider(made_.authority.certificate, std::move(identity)),
         .server_name = server_name});
  }
  absl::Status Describe(EndToEnd::Stub& stub) {
    ClientContext context;
    return stub.Describe(&context, Nothing(), &reply_);
  }

  const TestCertificates made_ = MakeTestCertificates();
  int port_ = 0;
  Description reply_;
};

TEST_F(TlsTest, AHandlerKnowsItsClient) {
  Serve();
  const auto stub = NewStub(Client({made_.client}));
  ASSERT_EQ(Describe(*stub), absl::OkStatus());
  EXPECT_EQ(reply_.identity(),
            "x509_subject_alternative_name=spiffe://test.example/client");
  EXPECT_THAT(reply_.facts(), Contains("transport_security_type=ssl"));
  EXPECT_THAT(reply_.facts(), Contains("tls_cipher=TLS_AES_256_GCM_SHA384"));
}

// All ways of a message: in a frame, in several, and beside it, in one chunk
// and in several.
TEST_F(TlsTest, MessagesOfAllLengthsArrive) {
  Serve();
  const auto stub = NewStub(Client({made_.client}));
  for (const size_t bytes : {0, 1, 7000, 8100, 8192, 20000, 262143, 262144,
                             262145, 1000000, 3000000}) {
    EXPECT_EQ(EchoProblem(*stub, bytes, bytes), "") << bytes;
  }
}

TEST_F(TlsTest, AClientWithoutACertificateIsRefused) {
  Serve();
  const absl::Status status = Describe(*NewStub(Client({})));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("peer did not return a certificate"));
}

TEST_F(TlsTest, AServerOfAnotherAuthorityIsRefused) {
  Serve();
  const TestCertificates other = MakeTestCertificates();
  const absl::Status status = Describe(*NewStub(*TlsCredentials(
      {.certificate_provider = Provider(other.authority.certificate, {})})));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the certificate of the server was not accepted"));
}

TEST_F(TlsTest, AServerOfAnotherNameIsRefused) {
  Serve();
  const absl::Status status =
      Describe(*NewStub(Client({made_.client}, "other.example")));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("hostname mismatch (it is for localhost"));
}

TEST_F(TlsTest, ASideWithoutTlsIsTold) {
  Serve();
  const absl::Status plain = Describe(*NewStub(InsecureChannelCredentials()));
  EXPECT_EQ(plain.code(), absl::StatusCode::kUnauthenticated) << plain;
  EXPECT_THAT(std::string(plain.message()),
              HasSubstr("this server wants credentials of the kind tls"));
  StartServer([&](ServerBuilder& builder) {
    builder.AddListeningPort(Address(0), &port_);
  });
  const absl::Status sealed = Describe(*NewStub(Client({made_.client})));
  EXPECT_EQ(sealed.code(), absl::StatusCode::kUnauthenticated) << sealed;
  EXPECT_THAT(std::string(sealed.message()),
              HasSubstr("this client requires credentials of the kind tls"));
}

TEST_F(TlsTest, ChecksumsAreNoneWhereAllIsSealed) {
  Serve(ClientCertificates::kDontRequest);
  ChannelOptions options;
  options.checksum = true;
  const auto stub = NewStub(Client({}), options);
  EXPECT_EQ(EchoProblem(*stub, 1000000, 1), "");
}

TEST_F(TlsTest, CertificatesAreReplacedWhileTheServerRuns) {
  const auto provider = std::make_shared<ChangingProvider>(TlsCertificates{
      .root_certs = made_.authority.certificate, .identity = {made_.server}});
  Serve(provider);
  const auto old_stub = NewStub(Client({made_.client}));
  ASSERT_EQ(Describe(*old_stub), absl::OkStatus());
  const TestCertificates next = MakeTestCertificates();
  provider->Set(
      {.root_certs = next.authority.certificate, .identity = {next.server}});
  const auto new_stub = NewStub(
      *TlsCredentials({.certificate_provider = Provider(
                           next.authority.certificate, {next.client})}));
  EXPECT_EQ(Describe(*new_stub), absl::OkStatus());
  // A connection stays what it was; another one is not let in.
  EXPECT_EQ(Describe(*old_stub), absl::OkStatus());
  EXPECT_EQ(Describe(*NewStub(Client({made_.client}))).code(),
            absl::StatusCode::kUnauthenticated);
}

TEST_F(TlsTest, AConnectionAfterTheFirstResumesItsSession) {
  Serve();
  const auto credentials = Client({made_.client});
  ASSERT_EQ(Describe(*NewStub(credentials)), absl::OkStatus());
  EXPECT_THAT(reply_.facts(), Contains("ssl_session_reused=false"));
  ASSERT_EQ(Describe(*NewStub(credentials)), absl::OkStatus());
  EXPECT_THAT(reply_.facts(), Contains("ssl_session_reused=true"));
  EXPECT_EQ(reply_.identity(),
            "x509_subject_alternative_name=spiffe://test.example/client");
}

}  // namespace
}  // namespace verbena::end_to_end
