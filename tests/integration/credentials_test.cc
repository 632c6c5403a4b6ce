// Tests of credentials of connections and of calls.

#include "rpc/credentials.h"

#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/credentials/shared_secret.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"
#include "tests/testing/test_device.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/clock.h"
#include "transport/verbs/cm_event.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::end_to_end {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using transport::FrameHeader;
using transport::FrameText;
using transport::FrameType;
using transport::RawPeer;

const std::string kOld(32, 'o');
const std::string kNew(32, 'n');

void ExpectRefusal(const absl::Status& status, const std::string& why) {
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
}

class CredentialsTest : public EndToEndTest {
 protected:
  CredentialsTest() {
    EXPECT_EQ(keys_->Replace({{"old", kOld}, {"new", kNew}}), absl::OkStatus());
  }

  // A server with two ports, one of which wants to see `credentials`.
  void StartServerWith(std::shared_ptr<ServerCredentials> credentials,
                       const std::function<void(ServerBuilder&)>& change = {}) {
    StartServer([&](ServerBuilder& builder) {
      builder.AddListeningPort(Address(0), std::move(credentials),
                               &guarded_port_);
      if (change) change(builder);
    });
  }
  void StartServerWithKeys() {
    StartServerWith(SharedSecretServerCredentials(keys_));
  }

  std::string guarded_target() const { return Address(guarded_port_); }
  std::unique_ptr<EndToEnd::Stub> NewStub(
      std::shared_ptr<ChannelCredentials> credentials) const {
    return EndToEnd::NewStub(
        CreateChannel(guarded_target(), std::move(credentials)));
  }

  // Has a handler say in reply_ what it knows of the client.
  absl::Status Describe(EndToEnd::Stub& stub, const Metadata& metadata = {}) {
    ClientContext context;
    for (const auto& [key, value] : metadata) context.AddMetadata(key, value);
    absl::Status status = stub.Describe(&context, Nothing(), &reply_);
    initial_ = context.GetServerInitialMetadata();
    return status;
  }

  void AwaitFailures(uint64_t count) {
    const absl::Time deadline = base::Now() + testing_support::kTestTimeout;
    while (server().failed_authentications() < count &&
           base::Now() < deadline) {
      std::this_thread::yield();
    }
    EXPECT_EQ(server().failed_authentications(), count);
  }

  const std::shared_ptr<SharedSecretKeys> keys_ =
      std::make_shared<SharedSecretKeys>();
  int guarded_port_ = 0;
  Description reply_;
  Metadata initial_;
};

// --- A shared secret ---------------------------------------------------------

TEST_F(CredentialsTest, WhoKnowsTheSecretMayCallAndIsKnown) {
  StartServerWithKeys();
  const auto stub = NewStub(SharedSecretCredentials("new", kNew));
  ASSERT_EQ(Describe(*stub), absl::OkStatus());
  EXPECT_EQ(reply_.identity(), "key_name=new");
  EXPECT_THAT(
      reply_.facts(),
      ElementsAre("key_name=new", "transport_security_type=shared_secret"));
  EXPECT_EQ(EchoProblem(*stub, 1000000, 1), "");
  EXPECT_EQ(server().failed_authentications(), 0u);
}

TEST_F(CredentialsTest, APortWithoutCredentialsStaysOpenBesideOneThatHasThem) {
  StartServerWithKeys();
  ASSERT_EQ(Describe(*EndToEnd::NewStub(NewChannel())), absl::OkStatus());
  EXPECT_EQ(reply_.identity(), "");
  EXPECT_EQ(reply_.facts_size(), 0);
}

TEST_F(CredentialsTest, AnotherSecretAndAnUnknownKeyHearTheSame) {
  StartServerWithKeys();
  const absl::Status wrong =
      Describe(*NewStub(SharedSecretCredentials("old", kNew)));
  ExpectRefusal(wrong,
                "the server does not have the key that the client names, or "
                "has another secret for it");
  ExpectRefusal(wrong, guarded_target());
  AwaitFailures(1);
  const absl::Status unknown =
      Describe(*NewStub(SharedSecretCredentials("older", kOld)));
  EXPECT_EQ(unknown, wrong);
  AwaitFailures(2);
}

TEST_F(CredentialsTest, KeysAreReplacedWhileTheServerRuns) {
  StartServerWithKeys();
  const auto early = NewStub(SharedSecretCredentials("old", kOld));
  EXPECT_EQ(EchoProblem(*early, 100, 1), "");
  const auto late = NewStub(SharedSecretCredentials("newer", kNew));
  ExpectRefusal(Describe(*late), "another secret for it");
  ASSERT_EQ(keys_->Replace({{"new", kNew}, {"newer", kNew}},
                           SharedSecretKeys::Connections::kStay),
            absl::OkStatus());
  ExpectRefusal(Describe(*NewStub(SharedSecretCredentials("old", kOld))),
                "another secret for it");
  // A connected client stays if told so, and a refused one tries again by
  // itself.
  EXPECT_EQ(EchoProblem(*early, 100, 1), "");
  absl::Status status = absl::UnauthenticatedError("not tried");
  const absl::Time deadline = base::Now() + testing_support::kTestTimeout;
  while (absl::IsUnauthenticated(status) && base::Now() < deadline) {
    status = Describe(*late);
  }
  EXPECT_EQ(status, absl::OkStatus());
  EXPECT_EQ(reply_.identity(), "key_name=newer");
}

TEST_F(CredentialsTest, ConnectionsEndWhoseKeyIsWithdrawn) {
  StartServerWithKeys();
  const auto old = NewStub(SharedSecretCredentials("old", kOld));
  const auto other = NewStub(SharedSecretCredentials("new", kNew));
  EXPECT_EQ(EchoProblem(*old, 100, 1), "");
  EXPECT_EQ(EchoProblem(*other, 100, 1), "");
  const std::unique_ptr<Blocked> open = Block(old.get(), "with an old key");
  const std::unique_ptr<Blocked> stays = Block(other.get(), "with a new key");
  service().AwaitBlocked("with an old key");
  service().AwaitBlocked("with a new key");
  ASSERT_EQ(keys_->Replace({{"new", kNew}}), absl::OkStatus());
  open->thread.join();
  ExpectRefusal(open->status, "has withdrawn the credentials");
  ExpectRefusal(Describe(*old), "another secret for it");
  service().Release("with a new key");
  stays->thread.join();
  EXPECT_EQ(stays->status, absl::OkStatus());
  // Nor does the same name help with another secret.
  ASSERT_EQ(keys_->Replace({{"new", kOld}}), absl::OkStatus());
  absl::Status status;
  const absl::Time deadline = base::Now() + testing_support::kTestTimeout;
  // A call whose connection ends before its BYE has come is UNAVAILABLE.
  while (!absl::IsUnauthenticated(status) && base::Now() < deadline) {
    status = Describe(*other);
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
}

TEST_F(CredentialsTest, AClientWithoutCredentialsIsRefusedWhereTheyAreWanted) {
  StartServerWithKeys();
  const auto stub = EndToEnd::NewStub(CreateChannel(guarded_target()));
  ExpectRefusal(Describe(*stub),
                "wants credentials of the kind shared_secret, and the client "
                "has none");
  ExpectRefusal(Describe(*NewStub(InsecureChannelCredentials())),
                "the client has none");
  AwaitFailures(2);
}

TEST_F(CredentialsTest, AServerWithoutCredentialsIsRefusedWhereTheyAreWanted) {
  StartServerWith(InsecureServerCredentials());
  ExpectRefusal(Describe(*NewStub(SharedSecretCredentials("new", kNew))),
                "requires credentials of the kind ");
}

TEST_F(CredentialsTest, ThePatientDoNotWaitForThatEither) {
  StartServerWithKeys();
  const auto stub = NewStub(SharedSecretCredentials("new", kOld));
  ClientContext context;
  context.set_wait_for_ready(true);
  ExpectRefusal(stub->Describe(&context, Nothing(), &reply_),
                "another secret for it");
  const auto channel =
      CreateChannel(guarded_target(), SharedSecretCredentials("new", kOld));
  EXPECT_FALSE(channel->WaitForConnected(absl::InfiniteFuture()));
}

TEST_F(CredentialsTest, AChannelWhoseCredentialsMakeNoSenseSaysSo) {
  StartServerWithKeys();
  const absl::Status too_short =
      Describe(*NewStub(SharedSecretCredentials("new", "password")));
  EXPECT_EQ(too_short.code(), absl::StatusCode::kInvalidArgument) << too_short;
  EXPECT_THAT(std::string(too_short.message()),
              HasSubstr("the secret of the key \"new\" has 8 bytes"));
  const absl::Status null = Describe(*NewStub(nullptr));
  EXPECT_EQ(null.code(), absl::StatusCode::kInvalidArgument) << null;
  EXPECT_THAT(std::string(null.message()), HasSubstr("credentials are null"));
}

// A raw client that has listened to another one, and says the very same.
TEST_F(CredentialsTest, WhoReplaysWhatAnotherHasSaidIsRefused) {
  StartServerWithKeys();
  const auto handshake = SharedSecretCredentials("new", kNew)->Begin({});
  std::string request;
  std::string hello;
  std::string proof;
  // Returns what the server answers to the proof.
  const auto enter = [&]() -> std::string {
    auto raw = *RawPeer::Create(guarded_target(), {});
    if (request.empty()) {
      request = transport::EncodeConnectRequest(raw->Request());
      hello = transport::EncodeOptions(
          {{transport::kOptionCredentialsKind, "shared_secret"},
           {transport::kOptionCredentials, *handshake->Hello()}});
    }
    const transport::CmEvent event = *raw->Connect(request);
    EXPECT_EQ(raw->Send(FrameText(raw->Header(FrameType::kHello), hello)),
              absl::OkStatus());
    const std::string challenge = *raw->Receive(FrameType::kCredentials);
    if (proof.empty()) {
      proof = *handshake->Answer(
          challenge.substr(sizeof(FrameHeader)),
          transport::HellosText(
              raw->Request(),
              *transport::DecodeConnectReply(event.private_data()), hello));
    }
    EXPECT_EQ(raw->Send(FrameText(raw->Header(FrameType::kCredentials), proof)),
              absl::OkStatus());
    return *raw->Receive();
  };
  EXPECT_EQ(transport::HeaderOf<FrameHeader>(enter()).type,
            FrameType::kWelcome);
  EXPECT_EQ(server().failed_authentications(), 0u);
  const std::string bye = enter();
  EXPECT_EQ(transport::HeaderOf<FrameHeader>(bye).type, FrameType::kBye);
  EXPECT_THAT(bye, HasSubstr("another secret for it"));
  AwaitFailures(1);
}

// --- Local -------------------------------------------------------------------

TEST_F(CredentialsTest, TheKernelVouchesForProcessesOfOneHost) {
  StartServerWith(LocalServerCredentials());
  const auto stub = NewStub(LocalCredentials());
  const absl::Status status = Describe(*stub);
  if (absl::string_view(testing_support::TestProvider().name) != "soft") {
    ExpectRefusal(status, "the kernel does not vouch for the server");
    AwaitFailures(1);
    return;
  }
  ASSERT_EQ(status, absl::OkStatus());
  EXPECT_EQ(reply_.identity(), absl::StrCat("user=", ::geteuid()));
  EXPECT_EQ(EchoProblem(*stub, 100000, 1), "");
  EXPECT_EQ(server().failed_authentications(), 0u);
}

TEST_F(CredentialsTest, KindsMustBeTheSame) {
  StartServerWith(LocalServerCredentials());
  ExpectRefusal(
      Describe(*NewStub(SharedSecretCredentials("new", kNew))),
      "wants credentials of the kind local, and the client has those of the "
      "kind shared_secret");
  AwaitFailures(1);
}

// --- Metadata of calls -------------------------------------------------------

// Knows one token.
class TokenProcessor final : public AuthMetadataProcessor {
 public:
  absl::Status Process(const Metadata& auth_metadata, AuthContext* context,
                       Metadata* consumed, Metadata* response) override {
    const auto token = auth_metadata.find("token");
    if (token == auth_metadata.end()) {
      return absl::UnauthenticatedError("there is no token");
    }
    if (token->second != "open sesame") {
      return absl::PermissionDeniedError("that token is for another cave");
    }
    context->AddProperty("caller", "Ali Baba");
    context->SetPeerIdentityPropertyName("caller");
    consumed->emplace(*token);
    response->emplace("cave", "open");
    return absl::OkStatus();
  }
};

class TokenTest : public CredentialsTest {
 protected:
  void StartServerWithTokens(std::shared_ptr<ServerCredentials> credentials) {
    StartServerWith(std::move(credentials), [](ServerBuilder& builder) {
      builder.SetAuthMetadataProcessor(std::make_shared<TokenProcessor>());
    });
  }
};

TEST_F(TokenTest, ACallWithAGoodTokenReachesItsHandler) {
  StartServerWithTokens(SharedSecretServerCredentials(keys_));
  const auto stub = NewStub(SharedSecretCredentials("new", kNew));
  ASSERT_EQ(Describe(*stub, {{"token", "open sesame"}, {"colour", "blue"}}),
            absl::OkStatus());
  EXPECT_EQ(reply_.identity(), "caller=Ali Baba");
  EXPECT_THAT(reply_.facts(),
              ElementsAre("caller=Ali Baba", "key_name=new",
                          "transport_security_type=shared_secret"));
  // The handler does not see what was consumed.
  EXPECT_THAT(reply_.metadata(), ElementsAre("colour=blue"));
  EXPECT_EQ(initial_.count("cave"), 1u);
}

TEST_F(TokenTest, OthersDoNot) {
  StartServerWithTokens(InsecureServerCredentials());
  const auto stub = NewStub(InsecureChannelCredentials());
  ExpectRefusal(Describe(*stub), "there is no token");
  const absl::Status wrong = Describe(*stub, {{"token", "open barley"}});
  EXPECT_EQ(wrong.code(), absl::StatusCode::kPermissionDenied) << wrong;
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("another cave"));
  EXPECT_EQ(server().failed_authentications(), 0u);
}

TEST_F(TokenTest, WhatOneCallHasShownDoesNotCountForTheNext) {
  StartServerWithTokens(InsecureServerCredentials());
  const auto channel = CreateChannel(guarded_target());
  const auto stub = EndToEnd::NewStub(channel);
  const auto on_poller = Inline::NewStub(channel);
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(Describe(*stub, {{"token", "open sesame"}}), absl::OkStatus());
    ASSERT_EQ(reply_.facts_size(), 1);
    ExpectRefusal(Describe(*stub), "there is no token");
    ClientContext context;
    ExpectRefusal(on_poller->Describe(&context, Nothing(), &reply_),
                  "there is no token");
  }
}

}  // namespace
}  // namespace verbena::end_to_end
