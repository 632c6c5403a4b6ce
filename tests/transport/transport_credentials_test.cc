// Clients and servers that have to prove who they are before the first call,
// and others that will not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/testing/transport_client.h"
#include "tests/transport/faulty_fixture.h"
#include "tests/transport/hostile_server_fixture.h"
#include "tests/transport/raw_peer.h"
#include "tests/transport/toy_credentials.h"
#include "transport/base/check.h"
#include "transport/faulty/fault_plan.h"
#include "transport/wire/frame.h"
#include "transport/wire/frame_codec.h"
#include "transport/wire/hello.h"

namespace verbena::transport {
namespace {

using testing::HasSubstr;
using testing_support::TestServer;

constexpr char kSecret[] = "swordfish";

EndpointOptions OptionsWith(const std::string& secret) {
  EndpointOptions options = TestOptions();
  options.credentials = std::make_shared<ToyClientCredentials>(secret);
  return options;
}

// Returns the body of a HELLO with toy credentials.
std::string HelloBody(const std::string& kind = kToyKind) {
  return EncodeOptions(
      {{kOptionCredentialsKind, kind}, {kOptionCredentials, "let me in"}});
}

std::string BodyOf(const std::string& frame) {
  return frame.substr(sizeof(FrameHeader));
}

void ExpectRefusal(const absl::Status& status, const std::string& why) {
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
}

// A server that wants to hear the secret.
class TransportCredentialsTest : public testing::Test {
 protected:
  explicit TransportCredentialsTest(
      const EndpointOptions& options = TestOptions())
      : server_(options, /*pollers=*/1,
                std::make_shared<ToyServerCredentials>(kSecret)) {}

  // Returns the error with which connecting with `options` fails.
  absl::Status Refusal(const EndpointOptions& options) {
    return TestClient::Connect(server_.address(), options).status();
  }

  // Returns a raw client that is connected and has not sent its HELLO.
  RawPeer& Raw() {
    absl::StatusOr<std::unique_ptr<RawPeer>> raw =
        RawPeer::Create(server_.address(), {});
    CHECK(raw.ok()) << raw.status().ToString();
    raw_ = *std::move(raw);
    const absl::StatusOr<CmEvent> event =
        raw_->Connect(EncodeConnectRequest(raw_->Request()));
    CHECK(event.ok()) << event.status().ToString();
    absl::StatusOr<ConnectReply> reply =
        DecodeConnectReply(event->private_data());
    CHECK(reply.ok()) << reply.status().ToString();
    reply_ = *reply;
    return *raw_;
  }
  // Returns a raw client that has sent its HELLO, and that the server has asked
  // for the secret.
  RawPeer& Asked() {
    RawPeer& raw = Raw();
    EXPECT_EQ(raw.Send(FrameText(raw.Header(FrameType::kHello), HelloBody())),
              absl::OkStatus());
    const auto challenge = raw.Receive();
    EXPECT_EQ(challenge.status(), absl::OkStatus());
    EXPECT_EQ(HeaderOf<FrameHeader>(*challenge).type, FrameType::kCredentials);
    EXPECT_EQ(BodyOf(*challenge), kToyChallenge);
    return raw;
  }
  // Returns the answer with which the server would let the raw client in.
  std::string Proof() const {
    return ToyProof("client", kSecret,
                    HellosText(raw_->Request(), reply_, HelloBody()));
  }

  // The server has refused the raw client, with `why` in the BYE.
  void ExpectRefused(const std::string& why) {
    const absl::StatusOr<std::string> bye = raw_->Receive(FrameType::kBye);
    ASSERT_EQ(bye.status(), absl::OkStatus());
    EXPECT_EQ(HeaderOf<FrameHeader>(*bye).flags & kFlagUnauthenticated,
              kFlagUnauthenticated);
    EXPECT_THAT(BodyOf(*bye), HasSubstr(why));
    EXPECT_EQ(raw_->AwaitEnd(), absl::OkStatus());
    EXPECT_TRUE(server_.handler().AwaitUnauthenticated(1));
    EXPECT_EQ(server_.handler().calls(), 0);
  }

  TestServer server_;
  std::unique_ptr<RawPeer> raw_;
  ConnectReply reply_;
};

TEST_F(TransportCredentialsTest, WhoKnowsTheSecretMayCall) {
  TestClient client(server_.address(), OptionsWith(kSecret));
  EXPECT_TRUE(client.Echo(100).ok());
  EXPECT_TRUE(client.Echo(1000000).ok());
  EXPECT_EQ(server_.handler().unauthenticated(), 0);
  const auto who = server_.handler().last_client();
  ASSERT_NE(who, nullptr);
  EXPECT_THAT(who->GetPeerIdentity(), testing::ElementsAre("a friend"));
}

TEST_F(TransportCredentialsTest, WhoDoesNotIsRefusedAndCounted) {
  for (int i = 1; i <= 3; ++i) {
    ExpectRefusal(Refusal(OptionsWith("sesame")),
                  "the client does not know the secret");
    EXPECT_TRUE(server_.handler().AwaitUnauthenticated(i));
  }
  // And is held no longer.
  EXPECT_TRUE(server_.AwaitConnections(0));
  EXPECT_EQ(server_.handler().unauthenticated(), 3);
  TestClient client(server_.address(), OptionsWith(kSecret));
  EXPECT_TRUE(client.Echo(100).ok());
}

TEST_F(TransportCredentialsTest, AClientWithoutCredentialsIsRefused) {
  ExpectRefusal(Refusal(TestOptions()),
                "wants credentials of the kind toy, and the client has none");
  EXPECT_TRUE(server_.handler().AwaitUnauthenticated(1));
}

TEST_F(TransportCredentialsTest, AClientWithCredentialsOfAnotherKindIsRefused) {
  RawPeer& raw = Raw();
  ASSERT_TRUE(
      raw.Send(FrameText(raw.Header(FrameType::kHello), HelloBody("j\x01oke")))
          .ok());
  ExpectRefused("the client has those of the kind j\\x01oke");
}

TEST_F(TransportCredentialsTest, ARightProofGetsTheServersOwn) {
  RawPeer& raw = Asked();
  ASSERT_TRUE(
      raw.Send(FrameText(raw.Header(FrameType::kCredentials), Proof())).ok());
  const auto welcome = raw.Receive();
  ASSERT_EQ(welcome.status(), absl::OkStatus());
  EXPECT_EQ(HeaderOf<FrameHeader>(*welcome).type, FrameType::kWelcome);
  EXPECT_THAT(BodyOf(*welcome), HasSubstr("server:swordfish:"));
  // Once is enough.
  ASSERT_TRUE(
      raw.Send(FrameText(raw.Header(FrameType::kCredentials), Proof())).ok());
  EXPECT_THAT(raw.AwaitBye(), HasSubstr("second HELLO"));
  EXPECT_EQ(server_.handler().unauthenticated(), 0);
}

TEST_F(TransportCredentialsTest, ACallBeforeTheProofIsRefused) {
  RawPeer& raw = Asked();
  ASSERT_TRUE(raw.Send(FrameText(raw.InlineRequest(1, 1, 1), "x")).ok());
  ExpectRefused("sent REQUEST before it was authenticated");
}

TEST_F(TransportCredentialsTest, AnArenaBeforeTheProofIsRefused) {
  RawPeer& raw = Asked();
  ArenaHeader arena = {};
  arena.frame = raw.Header(FrameType::kArena);
  arena.address = 4096;
  arena.bytes = 4096;
  arena.index = 1;
  ASSERT_TRUE(raw.Send(FrameText(arena)).ok());
  ExpectRefused("sent ARENA before it was authenticated");
}

TEST_F(TransportCredentialsTest, ACallBeforeTheHelloEndsTheConnection) {
  RawPeer& raw = Raw();
  ASSERT_TRUE(raw.Send(FrameText(raw.InlineRequest(1, 1, 1), "x")).ok());
  EXPECT_THAT(raw.AwaitBye(), HasSubstr("before its HELLO"));
  EXPECT_TRUE(server_.handler().AwaitUnauthenticated(1));
  EXPECT_EQ(server_.handler().calls(), 0);
}

TEST_F(TransportCredentialsTest, ASecondHelloEndsTheConnection) {
  RawPeer& raw = Asked();
  ASSERT_TRUE(
      raw.Send(FrameText(raw.Header(FrameType::kHello), HelloBody())).ok());
  EXPECT_THAT(raw.AwaitBye(), HasSubstr("second HELLO"));
  EXPECT_TRUE(server_.handler().AwaitUnauthenticated(1));
}

TEST_F(TransportCredentialsTest, AnEmptyProofIsRefused) {
  RawPeer& raw = Asked();
  ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kCredentials))).ok());
  ExpectRefused("the client does not know the secret");
}

TEST_F(TransportCredentialsTest, AProofOfOtherHellosIsRefused) {
  RawPeer& raw = Asked();
  ConnectRequest other = raw.Request();
  ++other.arena.rkey;
  ASSERT_TRUE(
      raw.Send(FrameText(raw.Header(FrameType::kCredentials),
                         ToyProof("client", kSecret,
                                  HellosText(other, reply_, HelloBody()))))
          .ok());
  ExpectRefused("the client does not know the secret");
}

TEST_F(TransportCredentialsTest, AClientThatGoesAwayIsCounted) {
  Asked().Disconnect();
  EXPECT_TRUE(server_.handler().AwaitUnauthenticated(1));
  EXPECT_TRUE(server_.AwaitConnections(0));
}

class ImpatientServerTest : public TransportCredentialsTest {
 protected:
  ImpatientServerTest() : TransportCredentialsTest(Impatient()) {}
  static EndpointOptions Impatient() {
    EndpointOptions options = TestOptions();
    options.connect_timeout = absl::Seconds(1);
    return options;
  }
};

TEST_F(ImpatientServerTest, AClientThatDoesNotAnswerIsLetGo) {
  RawPeer& raw = Raw();
  // On a busy machine even this may come too late.
  raw.Send(FrameText(raw.Header(FrameType::kHello), HelloBody())).IgnoreError();
  EXPECT_THAT(raw.AwaitBye(), HasSubstr("in time"));
  EXPECT_TRUE(server_.handler().AwaitUnauthenticated(1));
  EXPECT_TRUE(server_.AwaitConnections(0));
}

// --- Servers that cannot prove who they are ----------------------------------

class HostileServerCredentialsTest : public HostileServerFixture {
 protected:
  // A client with the secret has said its HELLO; what it said.
  std::string AcceptHello() {
    RawPeer& raw = Incoming(OptionsWith(kSecret));
    EXPECT_EQ(raw.Accept(EncodeConnectReply({raw.Limits()})), absl::OkStatus());
    const auto hello = raw.Receive(FrameType::kHello);
    EXPECT_EQ(hello.status(), absl::OkStatus());
    return BodyOf(*hello);
  }
  void Say(FrameType type, const std::string& body) {
    ASSERT_EQ(raw_->Send(FrameText(raw_->Header(type), body)),
              absl::OkStatus());
  }
  void Welcome(const std::string& message) {
    Say(FrameType::kWelcome, EncodeOptions({{kOptionCredentials, message}}));
  }
  // The client has refused the server and tells it why.
  void ExpectRefused(const std::string& why) {
    ExpectRefusal(Outcome(), why);
    EXPECT_THAT(raw_->AwaitBye(), HasSubstr(why));
  }
};

TEST_F(HostileServerCredentialsTest, AServerWithoutCredentialsIsRefused) {
  AcceptHello();
  Say(FrameType::kWelcome, "");
  ExpectRefused("requires credentials of the kind toy");
}

TEST_F(HostileServerCredentialsTest, AServerThatDoesNotAskIsNotBelieved) {
  AcceptHello();
  Welcome("come in");
  ExpectRefused("the server does not know the secret");
}

TEST_F(HostileServerCredentialsTest, AServerThatSendsTheProofBackIsRefused) {
  AcceptHello();
  Say(FrameType::kCredentials, kToyChallenge);
  const auto proof = raw_->Receive(FrameType::kCredentials);
  ASSERT_EQ(proof.status(), absl::OkStatus());
  Welcome(BodyOf(*proof));
  ExpectRefused("the server does not know the secret");
}

TEST_F(HostileServerCredentialsTest, AServerThatChangedTheHellosIsRefused) {
  const std::string hello = AcceptHello();
  Say(FrameType::kCredentials, kToyChallenge);
  ASSERT_TRUE(raw_->Receive(FrameType::kCredentials).ok());
  const auto request =
      DecodeConnectRequest(raw_->connect_event().private_data());
  ASSERT_EQ(request.status(), absl::OkStatus());
  PeerLimits other = raw_->Limits();
  ++other.credits;
  Welcome(ToyProof("server", kSecret, HellosText(*request, {other}, hello)));
  ExpectRefused("the server does not know the secret");
}

TEST_F(HostileServerCredentialsTest, AServerThatAsksOtherThingsIsRefused) {
  AcceptHello();
  Say(FrameType::kCredentials, "what is your favourite colour?");
  ExpectRefused("not expected");
}

TEST_F(HostileServerCredentialsTest, AClientWithoutCredentialsAnswersNothing) {
  RawPeer& raw = Incoming();
  ASSERT_TRUE(raw.Accept(EncodeConnectReply({raw.Limits()})).ok());
  ASSERT_TRUE(raw.Receive(FrameType::kHello).ok());
  Say(FrameType::kCredentials, kToyChallenge);
  const absl::Status status = Outcome();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("before its WELCOME"));
}

TEST_F(HostileServerCredentialsTest, ARefusalOfTheServerHasItsReason) {
  RawPeer& raw = Incoming();
  ASSERT_TRUE(raw.Accept(EncodeConnectReply({raw.Limits()})).ok());
  ASSERT_TRUE(raw.Receive(FrameType::kHello).ok());
  FrameHeader bye = raw.Header(FrameType::kBye);
  bye.flags = kFlagUnauthenticated;
  ASSERT_TRUE(raw.Send(FrameText(bye, "not\x01you")).ok());
  ExpectRefusal(Outcome(), "refused the connection: not\\x01you");
}

// --- Devices that fail meanwhile ---------------------------------------------

class FaultyCredentialsTest : public FaultyFixture {
 protected:
  // Runs `body` with a device that fails once, at each of the first calls of
  // each of these functions in turn.
  void ForEachFault(const std::function<void()>& body) {
    for (const char* const function : {"post_send", "post_srq_recv"}) {
      for (uint64_t n = 1; n <= 6; ++n) {
        SCOPED_TRACE(absl::StrCat(function, " call ", n));
        FaultPlan plan;
        plan.FailCall(function, n, EIO);
        faulty_.SetPlan(plan);
        body();
        EXPECT_EQ(faulty_.objects(), 0u);
        faulty_.SetPlan(no_faults_);
      }
    }
  }
};

TEST_F(FaultyCredentialsTest, AClientWhoseDeviceFailsSaysSoAndLeavesNothing) {
  TestServer server(TestOptions(), /*pollers=*/1,
                    std::make_shared<ToyServerCredentials>(kSecret));
  const auto use = [&server](const Provider& provider) {
    return Use(provider, server.address(), OptionsWith(kSecret), kAtOnce / 2);
  };
  ForEachFault([&] { ExpectClear(use(faulty_.provider())); });
  EXPECT_EQ(use(testing_support::TestProvider()), absl::OkStatus());
}

TEST_F(FaultyCredentialsTest, AServerWhoseDeviceFailsOnceLosesOneClientAtMost) {
  ForEachFault([this] {
    FaultyServer server(faulty_, TestOptions(),
                        std::make_shared<ToyServerCredentials>(kSecret));
    ExpectClear(server.status());
    if (!server.status().ok()) return;
    EXPECT_LE(
        FailedClients(server.address(), OptionsWith(kSecret), kAtOnce / 2), 1);
  });
}

}  // namespace
}  // namespace verbena::transport
