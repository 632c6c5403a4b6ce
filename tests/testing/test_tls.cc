#include "tests/testing/test_tls.h"

#include <cstdlib>
#include <utility>

#include "tests/testing/child_process.h"
#include "transport/base/check.h"

namespace verbena::testing_support {
namespace {

template <typename Value>
Value Must(absl::StatusOr<Value> value) {
  CHECK(value.ok()) << value.status().ToString();
  return *std::move(value);
}

bool WantsTls() { return std::getenv("VERBENA_TEST_TLS") != nullptr; }

const TestCertificates& OfProcess() {
  static const auto* const certificates =
      new TestCertificates(MakeTestCertificates());
  return *certificates;
}

}  // namespace

IdentityKeyCertPair IssueForTest(const certificates::Issued& authority,
                                 const certificates::IssueOptions& options) {
  certificates::Issued issued = Must(certificates::Issue(authority, options));
  return {.private_key = std::move(issued.key),
          .certificate_chain = std::move(issued.certificate)};
}

TestCertificates MakeTestCertificates() {
  TestCertificates made;
  made.authority = Must(certificates::MakeCertificateAuthority());
  made.server = IssueForTest(
      made.authority, {.names = {"localhost", "127.0.0.1", TestAddress()},
                       .usage = certificates::Usage::kServer});
  made.client =
      IssueForTest(made.authority, {.names = {"spiffe://test.example/client"},
                                    .usage = certificates::Usage::kClient});
  return made;
}

std::shared_ptr<CertificateProvider> Provider(
    const std::string& roots, std::vector<IdentityKeyCertPair> identity) {
  return std::make_shared<StaticDataCertificateProvider>(
      TlsCertificates{.root_certs = roots, .identity = std::move(identity)});
}

std::shared_ptr<ServerCredentials> TestServerCredentials() {
  if (!WantsTls()) return InsecureServerCredentials();
  return Must(TlsServerCredentials(
      {.certificate_provider =
           Provider(OfProcess().authority.certificate, {OfProcess().server}),
       .client_certificates = ClientCertificates::kRequire}));
}

std::shared_ptr<ChannelCredentials> TestChannelCredentials() {
  if (!WantsTls()) return InsecureChannelCredentials();
  return Must(TlsCredentials(
      {.certificate_provider =
           Provider(OfProcess().authority.certificate, {OfProcess().client})}));
}

}  // namespace verbena::testing_support
