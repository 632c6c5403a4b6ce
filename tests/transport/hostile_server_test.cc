// Clients of servers that lie to them: connecting or the open calls end with a
// Status that says what was wrong, in bounded time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/testing/transport_client.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/check.h"
#include "transport/base/limits.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;
using testing_support::TestBytes;
using testing_support::TestCall;
using testing_support::TestClient;
using testing_support::TestMethod;
using testing_support::TestOptions;

constexpr uint32_t kReplyBytes = 100000;

class HostileServerTest : public testing::Test {
 protected:
  HostileServerTest() : listener_(*RawListener::Create()) {}
  ~HostileServerTest() override {
    if (connecting_.joinable()) connecting_.join();
  }

  // Lets a client connect, and returns the server's end of that.
  RawPeer& Incoming(const EndpointOptions& options = TestOptions()) {
    connecting_ = std::thread([this, options] {
      connected_ = TestClient::Connect(listener_->address(), options);
    });
    absl::StatusOr<std::unique_ptr<RawPeer>> raw = listener_->Next();
    CHECK(raw.ok()) << raw.status().ToString();
    raw_ = *std::move(raw);
    return *raw_;
  }
  // What connecting came to.
  absl::Status Outcome() {
    connecting_.join();
    return connected_.status();
  }
  // The same, as a client.
  TestClient& Client() {
    const absl::Status status = Outcome();
    CHECK(status.ok()) << status.ToString();
    client_ = std::make_unique<TestClient>(*std::move(connected_));
    return *client_;
  }

  // Connects as it should be.
  RawPeer& Opened(const EndpointOptions& options = TestOptions()) {
    RawPeer& raw = Incoming(options);
    const absl::Status status = raw.AcceptAndWelcome();
    CHECK(status.ok()) << status.ToString();
    Client();
    return raw;
  }

  // Starts `call` and returns the REQUEST as the server gets it.
  RequestHeader StartAndReceive(TestCall& call) {
    client_->Start(call);
    const absl::StatusOr<std::string> request =
        raw_->Receive(FrameType::kRequest);
    CHECK(request.ok()) << request.status().ToString();
    return HeaderOf<RequestHeader>(*request);
  }

  // Polls the client until the server gets a frame of `type` from it.
  absl::StatusOr<std::string> PollForFrame(FrameType type) {
    std::atomic<bool> done = false;
    absl::StatusOr<std::string> frame = absl::UnknownError("");
    std::thread server([&] {
      frame = raw_->Receive(type);
      done = true;
    });
    EXPECT_TRUE(client_->RunUntil([&done] { return done.load(); }));
    server.join();
    return frame;
  }

  // A response to `request` with a message of `bytes` in the frame.
  ResponseHeader Response(const RequestHeader& request, uint32_t bytes = 0) {
    ResponseHeader response = {};
    response.frame = raw_->Header(FrameType::kResponse, request.frame.call_id);
    response.message_bytes = bytes;
    return response;
  }
  ResponsePendingHeader Pending(const RequestHeader& request, uint32_t bytes) {
    ResponsePendingHeader pending = {};
    pending.frame =
        raw_->Header(FrameType::kResponsePending, request.frame.call_id);
    pending.message_bytes = bytes;
    return pending;
  }

  // Sends `frame` while `call` is open. Expects that the call and the
  // connection end with `text` in their status and in the BYE.
  void ExpectEnd(TestCall& call, const std::string& frame,
                 const std::string& text) {
    ASSERT_TRUE(raw_->Send(frame).ok());
    ASSERT_TRUE(client_->RunUntilDone(call));
    EXPECT_EQ(call.status().code(), absl::StatusCode::kInternal);
    EXPECT_THAT(call.status().message(), HasSubstr(text));
    EXPECT_EQ(call.ends(), 1);
    EXPECT_FALSE(call.responded());
    EXPECT_TRUE(client_->connection().failed());
    // The BYE is on its way, and the rest needs somebody to poll.
    client_.reset();
    EXPECT_THAT(raw_->AwaitBye(), HasSubstr(text));
  }

  static TestCall::Options Hinted() {
    TestCall::Options options;
    options.reply_hint_bytes = kReplyBytes;
    return options;
  }

  std::unique_ptr<RawListener> listener_;
  std::unique_ptr<RawPeer> raw_;
  std::unique_ptr<TestClient> client_;

 private:
  std::thread connecting_;
  absl::StatusOr<std::unique_ptr<ClientConnection>> connected_ =
      absl::UnknownError("not yet");
};

// --- Connecting -------------------------------------------------------------

TEST_F(HostileServerTest, ConnectingFailsOnAGarbledReply) {
  ASSERT_TRUE(Incoming().Accept("garbage that is no reply").ok());
  const absl::Status status = Outcome();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST_F(HostileServerTest, ConnectingFailsOnAnEmptyReply) {
  ASSERT_TRUE(Incoming().Accept("").ok());
  EXPECT_EQ(Outcome().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(HostileServerTest, ConnectingFailsOnAnotherVersion) {
  RawPeer& raw = Incoming();
  std::string reply = EncodeConnectReply({raw.Limits()});
  reply[4] = kProtocolVersion + 1;
  ASSERT_TRUE(raw.Accept(reply).ok());
  const absl::Status status = Outcome();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(status.message(), HasSubstr("version 2"));
}

TEST_F(HostileServerTest, ConnectingFailsWithTheReasonOfARejection) {
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

TEST_F(HostileServerTest, ConnectingFailsOnAGarbledRejection) {
  for (const char* garbage : {"", "go away"}) {
    ASSERT_TRUE(Incoming().Reject(garbage).ok());
    const absl::Status status = Outcome();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(status.message(), HasSubstr("refused the connection"));
  }
}

TEST_F(HostileServerTest, ConnectingFailsInTimeWithoutAnAnswer) {
  EndpointOptions options = TestOptions();
  options.connect_timeout = absl::Seconds(1);
  Incoming(options);
  const absl::Status status = Outcome();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(status.message(), HasSubstr(listener_->address()));
}

TEST_F(HostileServerTest, ConnectingFailsInTimeWithoutAWelcome) {
  EndpointOptions options = TestOptions();
  options.connect_timeout = absl::Seconds(2);
  RawPeer& raw = Incoming(options);
  ASSERT_TRUE(raw.Accept(EncodeConnectReply({raw.Limits()})).ok());
  const absl::Status status = Outcome();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(status.message(), HasSubstr("HELLO"));
}

TEST_F(HostileServerTest, ConnectingFailsWhenItIsCutShort) {
  RawPeer& raw = Incoming();
  ASSERT_TRUE(raw.Accept(EncodeConnectReply({raw.Limits()})).ok());
  ASSERT_TRUE(raw.Receive(FrameType::kHello).ok());
  raw.Disconnect();
  const absl::Status status = Outcome();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

TEST_F(HostileServerTest, ConnectingFailsWithTheReasonInABye) {
  RawPeer& raw = Incoming();
  ASSERT_TRUE(raw.Accept(EncodeConnectReply({raw.Limits()})).ok());
  ASSERT_TRUE(raw.Receive(FrameType::kHello).ok());
  ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kBye), "not you")).ok());
  EXPECT_THAT(Outcome().message(), HasSubstr("not you"));
}

TEST_F(HostileServerTest, ConnectingFailsOnAFrameBeforeTheWelcome) {
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

TEST_F(HostileServerTest, ConnectsThroughPadding) {
  RawPeer& raw = Incoming();
  std::string reply = EncodeConnectReply({raw.Limits()});
  reply.resize(kAcceptPrivateBytesMax, '\0');
  ASSERT_TRUE(raw.Accept(reply).ok());
  ASSERT_TRUE(raw.Receive(FrameType::kHello).ok());
  ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kWelcome))).ok());
  EXPECT_TRUE(Outcome().ok());
}

// --- What a server says of itself -------------------------------------------

TEST_F(HostileServerTest, IsHeldToTheLimitsThatItGave) {
  RawPeer& raw = Incoming();
  PeerLimits limits = raw.Limits();
  limits.max_open_calls = 1;
  limits.credits = kMinCredits;
  limits.slot_bytes = kMinSlotBytes;
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

// --- Responses --------------------------------------------------------------

TEST_F(HostileServerTest, EndsCallsForAnAnswerToACallThatIsNotOpen) {
  for (const uint32_t wrong : {1u, 0x10000u, 0xffffu}) {
    Opened();
    TestCall call("x");
    const RequestHeader request = StartAndReceive(call);
    ResponseHeader response = Response(request);
    response.frame.call_id = request.frame.call_id ^ wrong;
    ExpectEnd(call, FrameText(response), "call that is not open");
  }
}

TEST_F(HostileServerTest, EndsCallsForASecondAnswer) {
  RawPeer& raw = Opened();
  TestCall call("x");
  const RequestHeader request = StartAndReceive(call);
  ASSERT_TRUE(raw.Send(FrameText(Response(request, 2), "ok")).ok());
  ASSERT_TRUE(client_->RunUntilDone(call));
  EXPECT_EQ(call.reply(), "ok");
  TestCall next("x");
  StartAndReceive(next);
  ExpectEnd(next, FrameText(Response(request)), "call that is not open");
}

TEST_F(HostileServerTest, EndsCallsForAReplyLongerThanItsLease) {
  Opened();
  TestCall call("x", Hinted());
  const RequestHeader request = StartAndReceive(call);
  EXPECT_EQ(request.reply_bytes, kReplyBytes);
  ResponseHeader response = Response(request, kReplyBytes + 1);
  response.frame.flags = kFlagMessageInArena;
  ExpectEnd(call, FrameText(response), "longer than its lease");
}

TEST_F(HostileServerTest, EndsCallsForAReplyInALeaseThatNobodyGave) {
  Opened();
  TestCall call("x");
  ResponseHeader response = Response(StartAndReceive(call), 1);
  response.frame.flags = kFlagMessageInArena;
  ExpectEnd(call, FrameText(response), "longer than its lease");
}

TEST_F(HostileServerTest, EndsCallsForAnAttachment) {
  Opened();
  TestCall call("x");
  ResponseHeader response = Response(StartAndReceive(call));
  response.attachment_bytes = 1;
  ExpectEnd(call, FrameText(response, "a"), "attachment");
}

TEST_F(HostileServerTest, EndsCallsForAnUnknownStatus) {
  Opened();
  TestCall call("x");
  ResponseHeader response = Response(StartAndReceive(call));
  response.code = 17;
  ExpectEnd(call, FrameText(response), "unknown status code");
}

TEST_F(HostileServerTest, EndsCallsForGarbage) {
  for (const size_t length : {0, 3, 16, 500, 8192}) {
    Opened();
    TestCall call("x");
    StartAndReceive(call);
    ExpectEnd(call, TestBytes(length), "broke the protocol");
  }
}

TEST_F(HostileServerTest, EndsCallsForFramesOfAClient) {
  Opened();
  TestCall call("x");
  const RequestHeader request = StartAndReceive(call);
  RequestHeader back = request;
  back.frame = raw_->Header(FrameType::kRequest, request.frame.call_id);
  ExpectEnd(call, FrameText(back, "x"), "only clients send");
}

TEST_F(HostileServerTest, EndsCallsForASecondWelcome) {
  RawPeer& raw = Opened();
  TestCall call("x");
  StartAndReceive(call);
  ExpectEnd(call, FrameText(raw.Header(FrameType::kWelcome)), "second WELCOME");
}

TEST_F(HostileServerTest, EndsCallsForAFrameLargerThanASlot) {
  RawPeer& raw = Opened();
  TestCall call("x");
  const RequestHeader request = StartAndReceive(call);
  const uint32_t bytes = kSlotBytes;
  ASSERT_TRUE(
      raw.Send(FrameText(Response(request, bytes), TestBytes(bytes))).ok());
  ASSERT_TRUE(client_->RunUntilDone(call));
  EXPECT_EQ(call.status().code(), absl::StatusCode::kUnavailable)
      << call.status();
}

// --- Leases -----------------------------------------------------------------

TEST_F(HostileServerTest, EndsACallForAReplyOfAbsurdSizeAndNothingElse) {
  RawPeer& raw = Opened();
  TestCall call("x");
  const RequestHeader request = StartAndReceive(call);
  ASSERT_TRUE(raw.Send(FrameText(Pending(request, UINT32_MAX))).ok());
  ASSERT_TRUE(client_->RunUntilDone(call));
  EXPECT_EQ(call.status().code(), absl::StatusCode::kResourceExhausted);
  // The server hears that nobody waits, and still owes the RESPONSE.
  const absl::StatusOr<std::string> cancel = PollForFrame(FrameType::kCancel);
  ASSERT_TRUE(cancel.ok()) << cancel.status();
  EXPECT_EQ(HeaderOf<FrameHeader>(*cancel).call_id, request.frame.call_id);
  ASSERT_TRUE(raw.Send(FrameText(Response(request))).ok());
  TestCall next("x");
  const RequestHeader second = StartAndReceive(next);
  ASSERT_TRUE(raw.Send(FrameText(Response(second, 2), "ok")).ok());
  ASSERT_TRUE(client_->RunUntilDone(next));
  EXPECT_EQ(next.reply(), "ok");
}

TEST_F(HostileServerTest, EndsCallsForALeaseThatIsNotNeeded) {
  Opened();
  TestCall call("x", Hinted());
  const RequestHeader request = StartAndReceive(call);
  ExpectEnd(call, FrameText(Pending(request, kReplyBytes)),
            "lease that it does not need");
}

TEST_F(HostileServerTest, GetsALeaseForWhatItNeeds) {
  RawPeer& raw = Opened();
  TestCall call("x", Hinted());
  const RequestHeader request = StartAndReceive(call);
  ASSERT_TRUE(raw.Send(FrameText(Pending(request, kReplyBytes + 1))).ok());
  const absl::StatusOr<std::string> lease = PollForFrame(FrameType::kLease);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(HeaderOf<LeaseHeader>(*lease).bytes, kReplyBytes + 1);
  client_->connection().Cancel(&call, absl::CancelledError("enough"));
}

// --- Credits ----------------------------------------------------------------

TEST_F(HostileServerTest, EndsCallsForACreditLimitThatCannotBe) {
  for (const uint32_t limit : {0u, kCredits - 1, 4 * kCredits, UINT32_MAX}) {
    RawPeer& raw = Opened();
    TestCall call("x");
    StartAndReceive(call);
    FrameHeader grant = raw.Header(FrameType::kGrant);
    grant.credit_limit = limit;
    ExpectEnd(call, FrameText(grant), "credit limit");
  }
}

TEST_F(HostileServerTest, MakesCallsWaitWhenItGrantsNoMoreCredits) {
  RawPeer& raw = Opened();
  std::vector<std::unique_ptr<TestCall>> calls;
  for (uint32_t i = 0; i < kCredits; ++i) {
    calls.push_back(std::make_unique<TestCall>("x"));
    client_->Start(*calls.back());
  }
  // The HELLO took one; the WELCOME gave it back.
  uint32_t written = 0;
  for (const auto& call : calls) written += call->written() ? 1 : 0;
  EXPECT_EQ(written, kCredits - kReservedCredits);
  // Credits that were kept back let calls be cancelled.
  client_->connection().Cancel(calls.front().get(),
                               absl::CancelledError("enough"));
  EXPECT_TRUE(raw.Receive(FrameType::kCancel).ok());
  for (const auto& call : calls) {
    client_->connection().Cancel(call.get(), absl::CancelledError("enough"));
    EXPECT_EQ(call->ends(), 1);
  }
}

// --- Servers that go --------------------------------------------------------

TEST_F(HostileServerTest, EndsCallsWithTheReasonInItsBye) {
  RawPeer& raw = Opened();
  TestCall call("x");
  StartAndReceive(call);
  ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kBye), "bye!")).ok());
  ASSERT_TRUE(client_->RunUntilDone(call));
  EXPECT_FALSE(call.responded());
  EXPECT_THAT(call.status().message(), HasSubstr("bye!"));
}

TEST_F(HostileServerTest, EndsCallsWhenItDisconnects) {
  RawPeer& raw = Opened();
  TestCall call("x");
  StartAndReceive(call);
  raw.Disconnect();
  ASSERT_TRUE(client_->RunUntilDone(call));
  EXPECT_EQ(call.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(call.status().message(), HasSubstr(listener_->address()));
}

TEST_F(HostileServerTest, EndsCallsWhenItIsSilent) {
  EndpointOptions options = TestOptions();
  options.keepalive_time = absl::Milliseconds(100);
  options.keepalive_timeout = absl::Milliseconds(100);
  Opened(options);
  TestCall call("x");
  StartAndReceive(call);
  ASSERT_TRUE(client_->RunUntilDone(call));
  EXPECT_EQ(call.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(call.status().message(), HasSubstr("PING"));
}

TEST_F(HostileServerTest, KeepsACallAliveWithPongs) {
  EndpointOptions options = TestOptions();
  options.keepalive_time = absl::Milliseconds(50);
  options.keepalive_timeout = absl::Seconds(30);
  RawPeer& raw = Opened(options);
  TestCall call("x");
  StartAndReceive(call);
  std::thread server([&raw] {
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(raw.Receive(FrameType::kPing).ok());
      EXPECT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kPong))).ok());
    }
    raw.Disconnect();
  });
  ASSERT_TRUE(client_->RunUntilDone(call));
  server.join();
  EXPECT_THAT(call.status().message(),
              testing::Not(HasSubstr("did not answer")));
}

TEST_F(HostileServerTest, DrainsAConnectionWithAGoAway) {
  RawPeer& raw = Opened();
  TestCall call("x");
  const RequestHeader request = StartAndReceive(call);
  ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kGoAway))).ok());
  ASSERT_TRUE(
      client_->RunUntil([this] { return client_->connection().draining(); }));
  ASSERT_TRUE(raw.Send(FrameText(Response(request, 2), "ok")).ok());
  ASSERT_TRUE(client_->RunUntilDone(call));
  EXPECT_TRUE(call.status().ok()) << call.status();
  TestCall late("x");
  EXPECT_EQ(client_->Run(late).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace verbena::transport
