// Servers that lie to connected clients, and servers that go: the open calls
// end with a Status that says what was wrong, in bounded time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/transport/hostile_server_fixture.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/clock.h"
#include "transport/base/limits.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;

using HostileServerFramesTest = HostileServerFixture;

// Connections of a client share its receives as those of a server do.
TEST_F(HostileServerFramesTest, ServersTryUntilThereIsAReceive) {
  const absl::StatusOr<int> retries = Opened().ReceiverNotReadyRetries();
  ASSERT_TRUE(retries.ok()) << retries.status();
  EXPECT_EQ(*retries, 7);
}

// --- Responses ---------------------------------------------------------------

TEST_F(HostileServerFramesTest, EndsCallsForAnAnswerToACallThatIsNotOpen) {
  for (const uint32_t wrong : {1u, 0x10000u, 0xffffu}) {
    Opened();
    TestCall call("x");
    const RequestHeader request = StartAndReceive(call);
    ResponseHeader response = Response(request);
    response.frame.call_id = request.frame.call_id ^ wrong;
    ExpectEnd(call, FrameText(response), "call that is not open");
  }
}

// A receive that a WRITE takes holds what was there before, and its length is
// the WRITE's.
TEST_F(HostileServerFramesTest, EndsCallsForAWriteThatTakesAReceive) {
  for (const uint32_t bytes : {0u, 100u, kBufferBytes + 1}) {
    RawPeer& raw = Opened();
    const absl::StatusOr<ConnectRequest> client =
        DecodeConnectRequest(raw.connect_event().private_data());
    ASSERT_TRUE(client.ok()) << client.status();
    TestCall call("x");
    StartAndReceive(call);
    ASSERT_TRUE(
        raw.WriteWithImmediate(client->arena.address, client->arena.rkey, bytes)
            .ok());
    ExpectEnd(call, "took a receive with a WRITE");
  }
}

TEST_F(HostileServerFramesTest, EndsCallsForASecondAnswer) {
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

TEST_F(HostileServerFramesTest, EndsCallsForAReplyLongerThanItsLease) {
  Opened();
  TestCall call("x", Hinted());
  const RequestHeader request = StartAndReceive(call);
  EXPECT_GE(request.reply_bytes, kReplyBytes);
  ResponseHeader response = Response(request, request.reply_bytes + 1);
  response.frame.flags = kFlagMessageInArena;
  ExpectEnd(call, FrameText(response), "longer than its lease");
}

TEST_F(HostileServerFramesTest, EndsCallsForAnAttachmentBeyondItsLease) {
  for (const uint32_t message_short_of_lease : {0u, 1u, 64u}) {
    Opened();
    TestCall call("x", Hinted());
    const RequestHeader request = StartAndReceive(call);
    ResponseHeader response = Response(request);
    response.frame.flags = kFlagAttachmentInArena;
    response.attachment_bytes = request.reply_bytes + 1;
    if (message_short_of_lease > 0) {
      response.frame.flags |= kFlagMessageInArena;
      response.message_bytes = request.reply_bytes - message_short_of_lease;
      response.attachment_bytes = message_short_of_lease + 1;
    }
    ExpectEnd(call, FrameText(response), "longer than its lease");
  }
}

TEST_F(HostileServerFramesTest, EndsCallsForPartsWhoseSumWrapsAround) {
  Opened();
  TestCall call("x", Hinted());
  ResponseHeader response = Response(StartAndReceive(call), UINT32_MAX);
  response.attachment_bytes = UINT32_MAX;
  response.frame.flags = kFlagMessageInArena | kFlagAttachmentInArena;
  ExpectEnd(call, FrameText(response), "longer than its lease");
}

TEST_F(HostileServerFramesTest,
       EndsCallsForAnAttachmentInALeaseThatNobodyGave) {
  Opened();
  TestCall call("x");
  ResponseHeader response = Response(StartAndReceive(call));
  response.attachment_bytes = 1;
  response.frame.flags = kFlagAttachmentInArena;
  ExpectEnd(call, FrameText(response), "longer than its lease");
}

TEST_F(HostileServerFramesTest, EndsCallsForAReplyInALeaseThatNobodyGave) {
  Opened();
  TestCall call("x");
  ResponseHeader response = Response(StartAndReceive(call), 1);
  response.frame.flags = kFlagMessageInArena;
  ExpectEnd(call, FrameText(response), "longer than its lease");
}

TEST_F(HostileServerFramesTest, MaySendAnAttachmentThatNobodyAskedFor) {
  RawPeer& raw = Opened();
  TestCall call("x");
  ResponseHeader response = Response(StartAndReceive(call), 2);
  response.attachment_bytes = 3;
  ASSERT_TRUE(raw.Send(FrameText(response, "okyes")).ok());
  ASSERT_TRUE(client_->RunUntilDone(call));
  EXPECT_EQ(call.reply(), "ok");
  EXPECT_EQ(call.reply_attachment(), "yes");
}

TEST_F(HostileServerFramesTest, EndsCallsForAnUnknownStatus) {
  Opened();
  TestCall call("x");
  ResponseHeader response = Response(StartAndReceive(call));
  response.code = 17;
  ExpectEnd(call, FrameText(response), "unknown status code");
}

TEST_F(HostileServerFramesTest, EndsCallsForGarbage) {
  for (const size_t length : {0, 3, 16, 500, 8192}) {
    Opened();
    TestCall call("x");
    StartAndReceive(call);
    ExpectEnd(call, TestBytes(length), "broke the protocol");
  }
}

TEST_F(HostileServerFramesTest, EndsCallsForFramesOfAClient) {
  Opened();
  TestCall call("x");
  const RequestHeader request = StartAndReceive(call);
  RequestHeader back = request;
  back.frame = raw_->Header(FrameType::kRequest, request.frame.call_id);
  ExpectEnd(call, FrameText(back, "x"), "only clients send");
}

TEST_F(HostileServerFramesTest, EndsCallsForASecondWelcome) {
  RawPeer& raw = Opened();
  TestCall call("x");
  StartAndReceive(call);
  ExpectEnd(call, FrameText(raw.Header(FrameType::kWelcome)), "second WELCOME");
}

TEST_F(HostileServerFramesTest, EndsCallsForAFrameLargerThanASlot) {
  RawPeer& raw = Opened();
  TestCall call("x");
  const RequestHeader request = StartAndReceive(call);
  const uint32_t bytes = kBufferBytes;
  ASSERT_TRUE(
      raw.Send(FrameText(Response(request, bytes), TestBytes(bytes))).ok());
  ASSERT_TRUE(client_->RunUntilDone(call));
  EXPECT_EQ(call.status().code(), absl::StatusCode::kUnavailable)
      << call.status();
}

// --- Leases ------------------------------------------------------------------

TEST_F(HostileServerFramesTest, EndsACallForAReplyOfAbsurdSizeAndNothingElse) {
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
  ASSERT_TRUE(SendWhilePolling(FrameText(Response(second, 2), "ok")).ok());
  ASSERT_TRUE(client_->RunUntilDone(next));
  EXPECT_EQ(next.reply(), "ok");
}

TEST_F(HostileServerFramesTest, EndsCallsForALeaseThatIsNotNeeded) {
  Opened();
  TestCall call("x", Hinted());
  const RequestHeader request = StartAndReceive(call);
  ExpectEnd(call, FrameText(Pending(request, request.reply_bytes)),
            "lease that it does not need");
}

TEST_F(HostileServerFramesTest, GetsALeaseForWhatItNeeds) {
  RawPeer& raw = Opened();
  TestCall call("x", Hinted());
  const RequestHeader request = StartAndReceive(call);
  const uint32_t needed = request.reply_bytes + 1;
  ASSERT_TRUE(raw.Send(FrameText(Pending(request, needed))).ok());
  const absl::StatusOr<std::string> lease = PollForFrame(FrameType::kLease);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_GE(HeaderOf<LeaseHeader>(*lease).bytes, needed);
  client_->connection().Cancel(&call, absl::CancelledError("enough"));
}

TEST_F(HostileServerFramesTest, EndsACallForAPendingAttachmentOfAbsurdSize) {
  Opened();
  for (const uint32_t message : {0u, UINT32_MAX}) {
    TestCall call("x");
    const RequestHeader request = StartAndReceive(call);
    ResponsePendingHeader pending = Pending(request, message);
    pending.attachment_bytes = UINT32_MAX;
    ASSERT_TRUE(SendWhilePolling(FrameText(pending)).ok());
    ASSERT_TRUE(client_->RunUntilDone(call));
    EXPECT_EQ(call.status().code(), absl::StatusCode::kResourceExhausted);
    ASSERT_TRUE(PollForFrame(FrameType::kCancel).ok());
    ASSERT_TRUE(SendWhilePolling(FrameText(Response(request))).ok());
  }
}

// --- Credits -----------------------------------------------------------------

TEST_F(HostileServerFramesTest, EndsCallsForACreditLimitThatCannotBe) {
  for (const uint32_t limit : {0u, kCredits - 1, 4 * kCredits, UINT32_MAX}) {
    RawPeer& raw = Opened();
    TestCall call("x");
    StartAndReceive(call);
    FrameHeader grant = raw.Header(FrameType::kGrant);
    grant.credit_limit = limit;
    ExpectEnd(call, FrameText(grant), "credit limit");
  }
}

TEST_F(HostileServerFramesTest, MakesCallsWaitWhenItGrantsNoMoreCredits) {
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

// --- Servers that go ---------------------------------------------------------

TEST_F(HostileServerFramesTest, EndsCallsWithTheReasonInItsBye) {
  RawPeer& raw = Opened();
  TestCall call("x");
  StartAndReceive(call);
  ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kBye), "bye!")).ok());
  ASSERT_TRUE(client_->RunUntilDone(call));
  EXPECT_FALSE(call.responded());
  EXPECT_THAT(call.status().message(), HasSubstr("bye!"));
}

TEST_F(HostileServerFramesTest, WritesNothingOfAByeThatIsNoText) {
  RawPeer& raw = Opened();
  TestCall call("x");
  StartAndReceive(call);
  ASSERT_TRUE(
      raw.Send(FrameText(raw.Header(FrameType::kBye), "\x1b[2J\nOK")).ok());
  ASSERT_TRUE(client_->RunUntilDone(call));
  EXPECT_THAT(call.status().message(), HasSubstr("\\x1b[2J\\nOK"));
}

// The client looks only when both have come, and hears of the end first.
TEST_F(HostileServerFramesTest, HasAnsweredWhatItAnsweredBeforeItDisconnects) {
  RawPeer& raw = Opened();
  TestCall call("x");
  const RequestHeader request = StartAndReceive(call);
  ASSERT_TRUE(raw.Send(FrameText(Response(request, 2), "ok")).ok());
  raw.Disconnect();
  // Notes what the descriptors have, and polls nothing.
  const absl::Time end = base::Now() + absl::Milliseconds(50);
  while (base::Now() < end) client_->connection().poller().WaitForEvent(end);
  ASSERT_TRUE(client_->RunUntilDone(call));
  EXPECT_EQ(call.status(), absl::OkStatus());
  EXPECT_EQ(call.reply(), "ok");
}

TEST_F(HostileServerFramesTest, EndsCallsWhenItDisconnects) {
  RawPeer& raw = Opened();
  TestCall call("x");
  StartAndReceive(call);
  raw.Disconnect();
  ASSERT_TRUE(client_->RunUntilDone(call));
  EXPECT_EQ(call.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(call.status().message(), HasSubstr(listener_->address()));
}

TEST_F(HostileServerFramesTest, EndsCallsWhenItIsSilent) {
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

TEST_F(HostileServerFramesTest, KeepsACallAliveWithPongs) {
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

TEST_F(HostileServerFramesTest, DrainsAConnectionWithAGoAway) {
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
  EXPECT_TRUE(late.unsent());
  EXPECT_TRUE(PollForFrame(FrameType::kGoAway).ok());
}

TEST_F(HostileServerFramesTest, TellsTheCallsThatWereNeverPostedFromOthers) {
  for (const bool goes_away : {true, false}) {
    RawPeer& raw = Opened();
    std::vector<std::unique_ptr<TestCall>> calls;
    for (int i = 0; i < 200; ++i) {  // More than there are credits for.
      calls.push_back(std::make_unique<TestCall>(std::to_string(i)));
      client_->Start(*calls.back());
    }
    ASSERT_TRUE(raw.Receive(FrameType::kRequest).ok());
    if (goes_away) {
      ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kGoAway))).ok());
      ASSERT_TRUE(
          client_->RunUntil([&] { return client_->connection().draining(); }));
    }
    // Each call was written when it got its credit, and not before.
    for (const auto& call : calls) {
      EXPECT_EQ(call->unsent(), goes_away && !call->written());
    }
    raw.Disconnect();
    ASSERT_TRUE(
        client_->RunUntil([&] { return client_->connection().failed(); }));
    EXPECT_TRUE(calls.front()->written());
    EXPECT_TRUE(calls.back()->unsent());
    for (const auto& call : calls) {
      EXPECT_EQ(call->status().code(), absl::StatusCode::kUnavailable);
      EXPECT_EQ(call->unsent(), !call->written());
      EXPECT_EQ(call->ends(), 1);
    }
    client_.reset();
  }
}

TEST_F(HostileServerFramesTest, HearsThatACallWasNotProcessed) {
  RawPeer& raw = Opened();
  TestCall call("x");
  ResponseHeader response = Response(StartAndReceive(call));
  response.frame.flags = kFlagUnprocessed;
  response.code = static_cast<uint32_t>(absl::StatusCode::kUnavailable);
  ASSERT_TRUE(raw.Send(FrameText(response)).ok());
  ASSERT_TRUE(client_->RunUntilDone(call));
  EXPECT_TRUE(call.unprocessed());
  EXPECT_EQ(call.status().code(), absl::StatusCode::kUnavailable);
  TestCall other("x");
  response = Response(StartAndReceive(other), 2);
  response.frame.flags = kFlagUnprocessed;
  ExpectEnd(other, FrameText(response, "ok"), "a part of a reply");
}

// --- Arenas that come and go ------------------------------------------------

TEST_F(HostileServerFramesTest, HearsOfArenasBeforeTheyAreNamedAndWhenTheyGo) {
  EndpointOptions options = TestOptions();
  options.memory_idle_time = absl::Milliseconds(1);
  RawPeer& raw = Opened(options);
  for (int i = 0; i < 3; ++i) {
    TestCall call(TestBytes(2 << 20));
    client_->Start(call);
    const auto offer = raw.Receive(FrameType::kArena);
    ASSERT_TRUE(offer.ok()) << offer.status();
    const auto arena = HeaderOf<ArenaHeader>(*offer);
    EXPECT_EQ(arena.index, 1);
    EXPECT_GE(arena.bytes, uint64_t{2} << 20);
    const auto request = raw.Receive(FrameType::kRequest);
    ASSERT_TRUE(request.ok()) << request.status();
    const auto header = HeaderOf<RequestHeader>(*request);
    EXPECT_EQ(header.message_arena, 1);
    ASSERT_TRUE(raw.Send(FrameText(Response(header))).ok());
    ASSERT_TRUE(client_->RunUntilDone(call));
    const auto withdrawal = PollForFrame(FrameType::kArena);
    ASSERT_TRUE(withdrawal.ok()) << withdrawal.status();
    EXPECT_EQ(HeaderOf<ArenaHeader>(*withdrawal).index, 1);
    EXPECT_EQ(HeaderOf<ArenaHeader>(*withdrawal).bytes, 0u);
    EXPECT_EQ(client_->connection().arena_bytes(), kFirstArenaBytes);
  }
}

// The server may read it until it has answered, although the call is over.
TEST_F(HostileServerFramesTest, KeepsTheArenaOfACancelledCall) {
  EndpointOptions options = TestOptions();
  options.memory_idle_time = absl::Milliseconds(1);
  RawPeer& raw = Opened(options);
  TestCall cancelled(TestBytes(2 << 20));
  TestCall other(TestBytes(4 << 20));
  const RequestHeader first = StartAndReceive(cancelled);
  const RequestHeader second = StartAndReceive(other);
  ASSERT_EQ(first.message_arena, 1);
  ASSERT_EQ(second.message_arena, 2);
  client_->connection().Cancel(&cancelled, absl::CancelledError("enough"));
  ASSERT_TRUE(raw.Send(FrameText(Response(second))).ok());
  ASSERT_TRUE(client_->RunUntilDone(other));
  for (const RequestHeader& request : {second, first}) {
    const auto withdrawal = PollForFrame(FrameType::kArena);
    ASSERT_TRUE(withdrawal.ok()) << withdrawal.status();
    EXPECT_EQ(HeaderOf<ArenaHeader>(*withdrawal).bytes, 0u);
    EXPECT_EQ(HeaderOf<ArenaHeader>(*withdrawal).index, request.message_arena);
    if (request.message_arena == 1) break;
    ASSERT_TRUE(SendWhilePolling(FrameText(Response(first))).ok());
  }
}

}  // namespace
}  // namespace verbena::transport
