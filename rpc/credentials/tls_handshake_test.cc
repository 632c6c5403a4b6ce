#include "rpc/credentials/tls_handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/test_tls.h"
#include "tools/certificates/certificates.h"
#include "transport/base/limits.h"

namespace verbena {
namespace {

using certificates::Usage;
using testing::HasSubstr;
using testing_support::IssueForTest;
using testing_support::Provider;
using transport::ClientHandshake;
using transport::PeerFacts;
using transport::Seals;
using transport::ServerHandshake;

constexpr char kHellos[] = "what both sides have said";

// Both ends of a handshake, without a connection between them.
struct Handshake {
  absl::Status client = absl::UnknownError("not done");
  absl::Status server = absl::UnknownError("not done");
  std::shared_ptr<const AuthContext> peer;  // The client, at the server.
  Seals client_seals;
  Seals server_seals;
  int messages = 0;
};

void Take(Seals from, Seals* to) {
  if (from.sealer != nullptr) to->sealer = std::move(from.sealer);
  if (from.opener != nullptr) to->opener = std::move(from.opener);
}

// Hands messages from one to the other until one refuses or both are done.
Handshake Shake(const ChannelCredentials& channel,
                const ServerCredentials& port,
                const std::string& client_hellos = kHellos) {
  Handshake result;
  const std::unique_ptr<ClientHandshake> client =
      channel.Begin(PeerFacts{.name = "localhost"});
  const std::unique_ptr<ServerHandshake> server = port.Begin(PeerFacts());
  absl::StatusOr<std::string> message = client->Hello();
  while (message.ok()) {
    ++result.messages;
    EXPECT_LE(message->size(), transport::kMaxCredentialBytes);
    absl::StatusOr<ServerHandshake::Answer> answer =
        server->OnMessage(*message, kHellos);
    result.server = answer.status();
    if (!answer.ok()) return result;
    EXPECT_LE(answer->message.size(), transport::kMaxCredentialBytes);
    Take(std::move(answer->seals), &result.server_seals);
    if (answer->peer != nullptr) {
      result.peer = answer->peer;
      result.client = client->Finish(answer->message, client_hellos);
      return result;
    }
    message = client->Answer(answer->message, client_hellos);
    if (message.ok()) Take(client->TakeSeals(), &result.client_seals);
  }
  result.client = message.status();
  return result;
}

// Whether what `sealer` seals opens with `opener`.
bool Fits(transport::Sealer& sealer, transport::Opener& opener) {
  std::vector<uint8_t> frame(100 + transport::kSealTagBytes, 'x');
  const absl::Span<uint8_t> text = absl::MakeSpan(frame).first(100);
  sealer.SealFrame(0, text);
  return opener.OpenFrame(0, text);
}

class TlsHandshakeTest : public testing::Test {
 protected:
  std::shared_ptr<ServerCredentials> Server(
      const IdentityKeyCertPair& identity,
      ClientCertificates wanted = ClientCertificates::kDontRequest,
      TlsVerifier verifier = nullptr) {
    return *TlsServerCredentials(
        {.certificate_provider = Provider(roots_, {identity}),
         .client_certificates = wanted,
         .verifier = std::move(verifier)});
  }
  std::shared_ptr<ChannelCredentials> Client(
      std::vector<IdentityKeyCertPair> identity = {},
      const std::string& server_name = "") {
    return *TlsCredentials(
        {.certificate_provider = Provider(roots_, std::move(identity)),
         .server_name = server_name});
  }
  IdentityKeyCertPair Issue(const certificates::IssueOptions& options) {
    return IssueForTest(made_.authority, options);
  }
  // The error of a client that connects to a server with that certificate.
  std::string Refusal(const certificates::IssueOptions& options) {
    const Handshake handshake = Shake(*Client(), *Server(Issue(options)));
    EXPECT_EQ(handshake.client.code(), absl::StatusCode::kUnauthenticated);
    EXPECT_EQ(handshake.peer, nullptr);
    return std::string(handshake.client.message());
  }

  const testing_support::TestCertificates made_ =
      testing_support::MakeTestCertificates();
  const std::string roots_ = made_.authority.certificate;
};

TEST_F(TlsHandshakeTest, BothSidesGetKeysThatFit) {
  const Handshake handshake = Shake(*Client(), *Server(made_.server));
  ASSERT_EQ(handshake.client, absl::OkStatus());
  ASSERT_EQ(handshake.server, absl::OkStatus());
  EXPECT_TRUE(
      Fits(*handshake.client_seals.sealer, *handshake.server_seals.opener));
  EXPECT_TRUE(
      Fits(*handshake.server_seals.sealer, *handshake.client_seals.opener));
  EXPECT_FALSE(handshake.peer->IsPeerAuthenticated());
}

TEST_F(TlsHandshakeTest, TheDirectionsHaveOtherKeys) {
  const Handshake handshake = Shake(*Client(), *Server(made_.server));
  EXPECT_FALSE(
      Fits(*handshake.client_seals.sealer, *handshake.client_seals.opener));
}

TEST_F(TlsHandshakeTest, KeysAreBoundToWhatBothSidesHaveSaid) {
  const Handshake handshake =
      Shake(*Client(), *Server(made_.server), "another arena");
  EXPECT_FALSE(
      Fits(*handshake.client_seals.sealer, *handshake.server_seals.opener));
}

TEST_F(TlsHandshakeTest, TheServerKnowsAClientByItsCertificate) {
  const Handshake handshake =
      Shake(*Client({made_.client}),
            *Server(made_.server, ClientCertificates::kRequire));
  ASSERT_EQ(handshake.client, absl::OkStatus());
  EXPECT_EQ(handshake.peer->GetPeerIdentity(),
            std::vector<std::string>{"spiffe://test.example/client"});
  EXPECT_EQ(handshake.peer->FindPropertyValues("peer_spiffe_id"),
            std::vector<std::string>{"spiffe://test.example/client"});
  EXPECT_EQ(handshake.peer->FindPropertyValues("transport_security_type"),
            std::vector<std::string>{"ssl"});
}

TEST_F(TlsHandshakeTest,
       AClientWithoutACertificateIsRefusedWhereOneIsRequired) {
  const Handshake handshake =
      Shake(*Client(), *Server(made_.server, ClientCertificates::kRequire));
  EXPECT_EQ(handshake.server.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(handshake.server.message()),
              HasSubstr("did not return a certificate"));
}

TEST_F(TlsHandshakeTest, AClientNeedNotShowACertificateThatIsOnlyRequested) {
  EXPECT_EQ(
      Shake(*Client(), *Server(made_.server, ClientCertificates::kRequest))
          .client,
      absl::OkStatus());
}

TEST_F(TlsHandshakeTest, AClientOfAnotherAuthorityIsRefused) {
  const testing_support::TestCertificates other =
      testing_support::MakeTestCertificates();
  const Handshake handshake =
      Shake(*Client({other.client}),
            *Server(made_.server, ClientCertificates::kRequest));
  EXPECT_THAT(std::string(handshake.server.message()),
              HasSubstr("the certificate of the client was not accepted"));
}

TEST_F(TlsHandshakeTest, ACertificateThatIsNotGoodIsRefusedWithTheReason) {
  EXPECT_THAT(Refusal({.names = {"other.example"}}),
              testing::AllOf(HasSubstr("hostname mismatch"),
                             HasSubstr("it is for other.example")));
  EXPECT_THAT(Refusal({.names = {"localhost"},
                       .not_before = absl::Now() - absl::Hours(48),
                       .not_after = absl::Now() - absl::Hours(1)}),
              HasSubstr("certificate has expired"));
  EXPECT_THAT(Refusal({.names = {"localhost"},
                       .not_before = absl::Now() + absl::Hours(1)}),
              HasSubstr("certificate is not yet valid"));
  EXPECT_THAT(Refusal({.names = {"localhost"}, .usage = Usage::kClient}),
              HasSubstr("unsuitable certificate purpose"));
}

TEST_F(TlsHandshakeTest, TheNameMayBeGivenAndMayBeAnAddress) {
  const auto server = Server(Issue({.names = {"a.example", "10.0.0.7"}}));
  EXPECT_EQ(Shake(*Client({}, "a.example"), *server).client, absl::OkStatus());
  EXPECT_EQ(Shake(*Client({}, "10.0.0.7"), *server).client, absl::OkStatus());
  EXPECT_FALSE(Shake(*Client({}, "10.0.0.8"), *server).client.ok());
}

TEST_F(TlsHandshakeTest, AServerWithSeveralNamesShowsTheOneThatIsWanted) {
  const std::shared_ptr<ServerCredentials> server = *TlsServerCredentials(
      {.certificate_provider =
           Provider(roots_, {made_.server, Issue({.names = {"b.example"}})})});
  EXPECT_EQ(Shake(*Client(), *server).client, absl::OkStatus());
  EXPECT_EQ(Shake(*Client({}, "b.example"), *server).client, absl::OkStatus());
}

TEST_F(TlsHandshakeTest, AConnectionAfterTheFirstResumesTheSession) {
  const auto client = Client({made_.client});
  const auto server = Server(made_.server, ClientCertificates::kRequire);
  const auto reused = [](const Handshake& handshake) {
    EXPECT_EQ(handshake.client, absl::OkStatus());
    EXPECT_TRUE(
        Fits(*handshake.client_seals.sealer, *handshake.server_seals.opener));
    return handshake.peer->FindPropertyValues("ssl_session_reused").front();
  };
  EXPECT_EQ(reused(Shake(*client, *server)), "false");
  for (int i = 0; i < 3; ++i) {
    const Handshake again = Shake(*client, *server);
    EXPECT_EQ(reused(again), "true");
    EXPECT_EQ(again.messages, 2);
    EXPECT_EQ(again.peer->GetPeerIdentity().front(),
              "spiffe://test.example/client");
  }
}

TEST_F(TlsHandshakeTest, AFlightThatIsLongerThanAMessageGoesInSeveral) {
  std::vector<std::string> names = {"localhost"};
  for (int i = 0; i < 300; ++i)
    names.push_back(absl::StrCat("n", i, ".example"));
  const IdentityKeyCertPair server = Issue({.names = names});
  const IdentityKeyCertPair client = Issue({.names = names});
  const Handshake handshake =
      Shake(*Client({client}), *Server(server, ClientCertificates::kRequire));
  ASSERT_EQ(handshake.client, absl::OkStatus());
  EXPECT_GT(handshake.messages, 4);
  EXPECT_TRUE(
      Fits(*handshake.server_seals.sealer, *handshake.client_seals.opener));
}

TEST_F(TlsHandshakeTest, AVerifierHasTheLastWord) {
  const auto refuse = [](const AuthContext& peer) {
    return absl::PermissionDeniedError(
        absl::StrCat("not ", peer.GetPeerIdentity().front()));
  };
  const Handshake at_server =
      Shake(*Client({made_.client}),
            *Server(made_.server, ClientCertificates::kRequire, refuse));
  EXPECT_EQ(at_server.server,
            absl::PermissionDeniedError("not spiffe://test.example/client"));
  const std::shared_ptr<ChannelCredentials> client =
      *TlsCredentials({.certificate_provider = Provider(roots_, {}),
                       .server_name = "any.example",
                       .check_server_name = false,
                       .verifier = refuse});
  EXPECT_EQ(Shake(*client, *Server(made_.server)).client,
            absl::PermissionDeniedError("not localhost"));
}

TEST_F(TlsHandshakeTest, NonsenseIsRefused) {
  for (const std::string& nonsense :
       {std::string(), std::string("\0", 1), std::string("\2abc"),
        std::string("\0abcdefghijklmnop", 17)}) {
    const std::unique_ptr<ServerHandshake> server =
        Server(made_.server)->Begin(PeerFacts());
    EXPECT_EQ(server->OnMessage(nonsense, kHellos).status().code(),
              absl::StatusCode::kUnauthenticated);
    const std::unique_ptr<ClientHandshake> client =
        Client()->Begin(PeerFacts{.name = "localhost"});
    ASSERT_TRUE(client->Hello().ok());
    EXPECT_EQ(client->Answer(nonsense, kHellos).status().code(),
              absl::StatusCode::kUnauthenticated);
    EXPECT_FALSE(client->Finish(nonsense, kHellos).ok());
  }
}

TEST_F(TlsHandshakeTest, AClientThatNeverEndsItsFlightIsStopped) {
  const std::unique_ptr<ServerHandshake> server =
      Server(made_.server)->Begin(PeerFacts());
  const std::string more = "\1" + std::string(2000, 'x');
  int messages = 0;
  while (server->OnMessage(more, kHellos).ok()) ASSERT_LT(++messages, 100);
  EXPECT_GT(messages, 10);
}

TEST_F(TlsHandshakeTest, OptionsThatDoNotFitAreRefused) {
  const auto code = [](const auto& made) { return made.status().code(); };
  EXPECT_EQ(code(TlsServerCredentials({})), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(TlsServerCredentials(
                {.certificate_provider = Provider("", {made_.server}),
                 .client_certificates = ClientCertificates::kRequire})),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(TlsCredentials({.check_server_name = false})),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(TlsCredentials(
                {.certificate_provider = Provider("no certificate", {})})),
            absl::StatusCode::kInvalidArgument);
  const IdentityKeyCertPair mixed = {
      .private_key = made_.client.private_key,
      .certificate_chain = made_.server.certificate_chain};
  EXPECT_THAT(std::string(TlsServerCredentials(
                              {.certificate_provider = Provider("", {mixed})})
                              .status()
                              .message()),
              HasSubstr("a private key does not belong to its certificate"));
}

}  // namespace
}  // namespace verbena
