// Servers that lie while a client connects: connecting fails with a Status that
// says what was wrong, in bounded time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/transport/hostile_server_fixture.h"
#include "tests/transport/raw_peer.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;

using HostileServerHelloTest = HostileServerFixture;

// --- Connecting --------------------------------------------------------------

TEST_F(HostileServerHelloTest, ConnectingFailsOnAGarbledReply) {
  ASSERT_TRUE(Incoming().Accept("garbage that is no reply").ok());
  const absl::Status status = Outcome();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST_F(HostileServerHelloTest, ConnectingFailsOnMalformedAddresses) {
  EndpointOptions options = TestOptions();
  options.ask_addresses = true;
  RawPeer& raw = Incoming(options);
  ASSERT_TRUE(raw.AcceptAndWelcome({{kOptionAddresses, "5ab0,nowhere"}}).ok());
  const absl::Status status = Outcome();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(status.message(), HasSubstr("no address is \"nowhere\""));
}

TEST_F(HostileServerHelloTest, ConnectingFailsOnAnEmptyReply) {
  ASSERT_TRUE(Incoming().Accept("").ok());
  EXPECT_EQ(Outcome().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(HostileServerHelloTest, ConnectingFailsOnAnotherVersion) {
  RawPeer& raw = Incoming();
  const uint8_t later = ProtocolVersions().highest + 1;
  ASSERT_TRUE(raw.Accept(EncodeConnectReply(
                             {.limits = raw.Limits(),
                              .version = later,
                              .versions = ProtocolVersions{later, later}}))
                  .ok());
  const absl::Status status = Outcome();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(status.message(),
              HasSubstr(absl::StrCat("version ", ProtocolVersions().highest)));
}

TEST_F(HostileServerHelloTest, ConnectingFailsWithTheReasonOfARejection) {
  ASSERT_TRUE(Incoming()
                  .Reject(EncodeReject({RejectReason::kFull, "no room today"}))
                  .ok());
  absl::Status status = Outcome();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(status.message(), HasSubstr("no room today"));

  ASSERT_TRUE(
      Incoming().Reject(EncodeReject({RejectReason::kBadHello, "what?"})).ok());
  status = Outcome();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(status.message(), HasSubstr("what?"));
}

TEST_F(HostileServerHelloTest, ConnectingFailsOnAGarbledRejection) {
  ASSERT_TRUE(Incoming().Reject("go away").ok());
  const absl::Status status = Outcome();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(status.message(), HasSubstr("refused the connection"));
}

// The connection manager says nothing either when a server fails to accept.
TEST_F(HostileServerHelloTest, ConnectingFailsOnARejectionWithoutAWord) {
  ASSERT_TRUE(Incoming().Reject("").ok());
  const absl::Status status = Outcome();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(status.message(), HasSubstr("rejected by the peer"));
}

TEST_F(HostileServerHelloTest, ConnectingFailsInTimeWithoutAnAnswer) {
  EndpointOptions options = TestOptions();
  options.connect_timeout = absl::Seconds(1);
  Incoming(options);
  const absl::Status status = Outcome();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(status.message(), HasSubstr(listener_->address()));
}

TEST_F(HostileServerHelloTest, ConnectingFailsInTimeWithoutAWelcome) {
  EndpointOptions options = TestOptions();
  options.connect_timeout = absl::Seconds(2);
  RawPeer& raw = Incoming(options);
  ASSERT_TRUE(raw.Accept(EncodeConnectReply({raw.Limits()})).ok());
  const absl::Status status = Outcome();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(status.message(), HasSubstr("HELLO"));
}

TEST_F(HostileServerHelloTest, ConnectingFailsWhenItIsCutShort) {
  RawPeer& raw = Incoming();
  ASSERT_TRUE(raw.Accept(EncodeConnectReply({raw.Limits()})).ok());
  ASSERT_TRUE(raw.Receive(FrameType::kHello).ok());
  raw.Disconnect();
  const absl::Status status = Outcome();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

TEST_F(HostileServerHelloTest, ConnectingFailsWithTheReasonInABye) {
  RawPeer& raw = Incoming();
  ASSERT_TRUE(raw.Accept(EncodeConnectReply({raw.Limits()})).ok());
  ASSERT_TRUE(raw.Receive(FrameType::kHello).ok());
  ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kBye), "not you")).ok());
  EXPECT_THAT(Outcome().message(), HasSubstr("not you"));
}

TEST_F(HostileServerHelloTest, ConnectingFailsOnAFrameBeforeTheWelcome) {
  RawPeer& raw = Incoming();
  ASSERT_TRUE(raw.Accept(EncodeConnectReply({raw.Limits()})).ok());
  ASSERT_TRUE(raw.Receive(FrameType::kHello).ok());
  ResponseHeader response = {};
  response.frame = raw.Header(FrameType::kResponse, 1);
  ASSERT_TRUE(raw.Send(FrameText(response)).ok());
  const absl::Status status = Outcome();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_THAT(status.message(), HasSubstr("before its WELCOME"));
}

TEST_F(HostileServerHelloTest, ConnectsThroughPadding) {
  RawPeer& raw = Incoming();
  std::string reply = EncodeConnectReply({raw.Limits()});
  reply.resize(kAcceptPrivateBytesMax, '\0');
  ASSERT_TRUE(raw.Accept(reply).ok());
  ASSERT_TRUE(raw.Receive(FrameType::kHello).ok());
  ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kWelcome))).ok());
  EXPECT_TRUE(Outcome().ok());
}

// --- What a server says of itself --------------------------------------------

TEST_F(HostileServerHelloTest, IsHeldToTheLimitsThatItGave) {
  RawPeer& raw = Incoming();
  PeerLimits limits = raw.Limits();
  limits.max_open_calls = 1;
  limits.credits = kMinCredits;
  limits.buffer_bytes = kMinBufferBytes;
  limits.max_receive_message_bytes = 6000;
  ASSERT_TRUE(raw.Accept(EncodeConnectReply({limits})).ok());
  ASSERT_TRUE(raw.Receive(FrameType::kHello).ok());
  FrameHeader header = raw.Header(FrameType::kWelcome);
  header.credit_limit = kMinCredits + 1;
  ASSERT_TRUE(raw.Send(FrameText(header)).ok());
  Client();

  TestCall too_large(TestBytes(6001));
  EXPECT_EQ(client_->Run(too_large).code(),
            absl::StatusCode::kResourceExhausted);
  // Fits our slots, not those of the server.
  TestCall first(TestBytes(6000));
  TestCall second("x");
  const RequestHeader request = StartAndReceive(first);
  EXPECT_NE(request.frame.flags & kFlagMessageInArena, 0);
  client_->Start(second);
  EXPECT_FALSE(second.written());
  ResponseHeader response = Response(request);
  response.frame.credit_limit = kMinCredits + 2;
  ASSERT_TRUE(raw.Send(FrameText(response)).ok());
  ASSERT_TRUE(client_->RunUntilDone(first));
  EXPECT_TRUE(second.written());
  client_->connection().Cancel(&second, absl::CancelledError("enough"));
}

// --- Checksums ---------------------------------------------------------------

EndpointOptions WithChecksum() {
  EndpointOptions options = TestOptions();
  options.checksum = true;
  return options;
}

TEST_F(HostileServerHelloTest, ConnectingFailsWithoutTheChecksumsThatItWants) {
  ASSERT_TRUE(Incoming(WithChecksum()).AcceptAndWelcome().ok());
  const absl::Status status = Outcome();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(status.message(), HasSubstr("did not agree to them"));
}

TEST_F(HostileServerHelloTest, ConnectingFailsOnChecksumsOfAnotherKind) {
  RawPeer& raw = Incoming();
  ASSERT_TRUE(raw.Accept(EncodeConnectReply({raw.Limits()})).ok());
  ASSERT_TRUE(raw.Receive(FrameType::kHello).ok());
  ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kWelcome),
                                 EncodeOptions({{kOptionChecksum, "md5"}})))
                  .ok());
  const absl::Status status = Outcome();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(status.message(), HasSubstr("checksums of the kind md5"));
}

TEST_F(HostileServerHelloTest, ConnectingFailsOnSlotsTooShortForChecksums) {
  RawPeer& raw = Incoming(WithChecksum());
  PeerLimits limits = raw.Limits();
  limits.buffer_bytes = kMinBufferBytes;
  ASSERT_TRUE(raw.Accept(EncodeConnectReply({limits})).ok());
  ASSERT_TRUE(raw.Receive(FrameType::kHello).ok());
  ASSERT_TRUE(
      raw.Send(FrameText(raw.Header(FrameType::kWelcome),
                         EncodeOptions({{kOptionChecksum, kChecksumKind}})))
          .ok());
  const absl::Status status = Outcome();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(status.message(), HasSubstr("4140 bytes"));
}

// Neither in the HELLO, nor behind a REQUEST.
TEST_F(HostileServerHelloTest, NothingMoreIsOnTheWireOfAClientThatDoesNotAsk) {
  for (const bool asks : {false, true}) {
    RawPeer& raw = Incoming(asks ? WithChecksum() : TestOptions());
    ASSERT_TRUE(raw.Accept(EncodeConnectReply({raw.Limits()})).ok());
    const absl::StatusOr<std::string> hello = raw.Receive(FrameType::kHello);
    ASSERT_TRUE(hello.ok()) << hello.status();
    const std::string option =
        EncodeOptions({{kOptionChecksum, kChecksumKind}});
    EXPECT_EQ(hello->find(option) != std::string::npos, asks);
    ASSERT_TRUE(
        raw.Send(FrameText(raw.Header(FrameType::kWelcome), asks ? option : ""))
            .ok());
    TestClient& client = Client();
    TestCall call(TestBytes(5));
    client.Start(call);
    const absl::StatusOr<std::string> request =
        raw.Receive(FrameType::kRequest);
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_EQ(request->size(),
              sizeof(RequestHeader) + 5 + (asks ? sizeof(FrameSums) : 0));
    client.connection().Cancel(&call, absl::CancelledError("enough"));
    client_.reset();
  }
}

}  // namespace
}  // namespace verbena::transport
