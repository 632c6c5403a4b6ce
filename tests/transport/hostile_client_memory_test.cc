// Clients that lie about their memory, and clients that do not take part: a
// good client goes on being served.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/transport/hostile_client_fixture.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/limits.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;

class HostileClientMemoryTest : public HostileClientFixture {
 protected:
  // Opens a connection with an arena of 4 GiB. It only says so.
  void OpenWithHugeArena(RawPeer& raw) {
    ConnectRequest request = raw.Request();
    request.arena.bytes = uint64_t{1} << 32;
    ASSERT_TRUE(raw.Connect(EncodeConnectRequest(request)).ok());
    ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kHello))).ok());
    ASSERT_TRUE(raw.Receive(FrameType::kWelcome).ok());
  }

  // The request is too large for the server, which goes on.
  void ExpectRefusal(RawPeer& raw, const RequestHeader& request) {
    ASSERT_TRUE(raw.Send(FrameText(request)).ok());
    const absl::StatusOr<std::string> response =
        raw.Receive(FrameType::kResponse);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(HeaderOf<ResponseHeader>(*response).code,
              static_cast<uint32_t>(absl::StatusCode::kResourceExhausted));
  }
};

// --- Arenas ------------------------------------------------------------------

TEST_F(HostileClientMemoryTest, MustNotNameARequestOutsideItsArena) {
  struct Range {
    uint16_t arena;
    uint32_t offset;
    uint32_t bytes;
  };
  const uint32_t end = kFirstArenaBytes;
  for (const Range& range :
       {Range{0, end - 10, 11}, Range{0, end, 1}, Range{0, 0, end + 1},
        Range{0, UINT32_MAX, 10}, Range{0, UINT32_MAX - 5, UINT32_MAX},
        Range{1, 0, 1}, Range{UINT16_MAX, 0, 1}}) {
    RequestHeader request = Request(0, range.bytes);
    request.frame.flags = kFlagMessageInArena;
    request.message_arena = range.arena;
    request.message_offset = range.offset;
    EXPECT_THAT(ByeTo({FrameText(request)}),
                HasSubstr("request outside its arenas"))
        << range.arena << ' ' << range.offset << ' ' << range.bytes;

    RequestHeader attachment = Request(0);
    attachment.frame.flags = kFlagAttachmentInArena;
    attachment.attachment_arena = range.arena;
    attachment.attachment_offset = range.offset;
    attachment.attachment_bytes = range.bytes;
    EXPECT_THAT(ByeTo({FrameText(attachment)}),
                HasSubstr("attachment outside its arenas"))
        << range.arena << ' ' << range.offset << ' ' << range.bytes;

    RequestHeader reply = Request(0);
    reply.frame.flags = kFlagReplyLease;
    reply.reply_arena = range.arena;
    reply.reply_offset = range.offset;
    reply.reply_bytes = range.bytes;
    EXPECT_THAT(ByeTo({FrameText(reply)}),
                HasSubstr("reply outside its arenas"))
        << range.arena << ' ' << range.offset << ' ' << range.bytes;
  }
}

// Sends a request for a reply of 100000 bytes and reads its RESPONSE_PENDING.
TEST_F(HostileClientMemoryTest, MustNotLendMemoryOutsideItsArena) {
  for (const bool too_short : {false, true}) {
    RawPeer& raw = Opened();
    const std::string number = "100000";
    ASSERT_TRUE(
        raw.Send(
               FrameText(raw.InlineRequest(
                             0, static_cast<uint64_t>(TestMethod::kProduce), 6),
                         number))
            .ok());
    ASSERT_TRUE(raw.Receive(FrameType::kResponsePending).ok());
    LeaseHeader lease = {};
    lease.frame = raw.Header(FrameType::kLease, 0);
    lease.offset = too_short ? 0 : kFirstArenaBytes - 99999;
    lease.bytes = too_short ? 99999 : 100000;
    ASSERT_TRUE(raw.Send(FrameText(lease)).ok());
    EXPECT_THAT(raw.AwaitBye(),
                HasSubstr(too_short ? "too short" : "outside its arenas"));
  }
}

TEST_F(HostileClientMemoryTest, MustNotLendWhatNobodyAskedFor) {
  LeaseHeader lease = {};
  lease.frame = Plain(FrameType::kLease, 0);
  lease.bytes = 4096;
  EXPECT_THAT(ByeTo({FrameText(lease)}), HasSubstr("not asked for"));
  EXPECT_THAT(ByeTo({FrameText(Request(0)), FrameText(lease)}),
              HasSubstr("not asked for"));
}

TEST_F(HostileClientMemoryTest, MustOfferArenasOnceAndWithinBounds) {
  ArenaHeader arena = {};
  arena.frame = Plain(FrameType::kArena);
  arena.address = 0x10000;
  arena.bytes = 0x10000;
  arena.index = 1;
  ArenaHeader wrong = arena;
  wrong.index = kMaxArenas;
  EXPECT_THAT(ByeTo({FrameText(wrong)}), HasSubstr("arena"));
  wrong.index = 0;
  EXPECT_THAT(ByeTo({FrameText(wrong)}), HasSubstr("arena"));
  EXPECT_THAT(ByeTo({FrameText(arena), FrameText(arena)}), HasSubstr("arena"));
  wrong = arena;
  wrong.bytes = 0;
  EXPECT_THAT(ByeTo({FrameText(wrong)}), HasSubstr("arena"));
  wrong.bytes = UINT64_MAX;
  EXPECT_THAT(ByeTo({FrameText(wrong)}), HasSubstr("arena"));
  std::vector<std::string> many;
  for (uint32_t i = 1; i <= kMaxArenas; ++i) {
    arena.index = static_cast<uint16_t>(i);
    many.push_back(FrameText(arena));
  }
  EXPECT_THAT(ByeTo(many), HasSubstr("arena"));
}

TEST_F(HostileClientMemoryTest, MustNotWithdrawWhatItHasNotOffered) {
  ArenaHeader offer = {};
  offer.frame = Plain(FrameType::kArena);
  offer.address = 0x10000;
  offer.bytes = 0x10000;
  offer.index = 2;
  ArenaHeader withdrawal = {};
  withdrawal.frame = Plain(FrameType::kArena);
  for (const uint32_t index : {0u, 1u, kMaxArenas, uint32_t{UINT16_MAX}}) {
    withdrawal.index = static_cast<uint16_t>(index);
    EXPECT_THAT(ByeTo({FrameText(offer), FrameText(withdrawal)}),
                HasSubstr("withdraws arena"))
        << index;
  }
  withdrawal.index = 2;
  EXPECT_THAT(
      ByeTo({FrameText(offer), FrameText(withdrawal), FrameText(withdrawal)}),
      HasSubstr("withdraws arena 2"));
}

TEST_F(HostileClientMemoryTest, MustNotNameWhatItHasWithdrawn) {
  ArenaHeader arena = {};
  arena.frame = Plain(FrameType::kArena);
  arena.address = 0x10000;
  arena.bytes = 0x10000;
  arena.index = 1;
  ArenaHeader withdrawal = {};
  withdrawal.frame = arena.frame;
  withdrawal.index = 1;
  RequestHeader request = Request(0, 10000);
  request.frame.flags = kFlagMessageInArena;
  request.message_arena = 1;
  EXPECT_THAT(
      ByeTo({FrameText(arena), FrameText(withdrawal), FrameText(request)}),
      HasSubstr("request outside its arenas"));
}

// The server has looked the range up before, and does what it was asked for.
TEST_F(HostileClientMemoryTest, MayWithdrawWhatTheServerUses) {
  RawPeer& raw = Opened();
  ArenaHeader arena = {};
  arena.frame = raw.Header(FrameType::kArena);
  arena.address = raw.arena_address();
  arena.bytes = raw.arena_bytes();
  arena.rkey = raw.arena_rkey();
  arena.index = 1;
  RequestHeader request = raw.ArenaRequest(0, kDiscard, 0, 500000);
  request.message_arena = 1;
  ArenaHeader withdrawal = {};
  withdrawal.frame = arena.frame;
  withdrawal.index = 1;
  for (uint32_t i = 0; i < 3; ++i) {
    request.frame.call_id = i << 16;
    ASSERT_TRUE(raw.Send(FrameText(arena)).ok());
    ASSERT_TRUE(raw.Send(FrameText(request)).ok());
    ASSERT_TRUE(raw.Send(FrameText(withdrawal)).ok());
    const absl::StatusOr<std::string> response =
        raw.Receive(FrameType::kResponse);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(HeaderOf<ResponseHeader>(*response).code, 0u);
  }
}

TEST_F(HostileClientMemoryTest, LosesItsConnectionForAWrongKey) {
  RawPeer& raw = Raw();
  ConnectRequest request = raw.Request();
  request.arena.rkey ^= 0x5a5a5a;
  ASSERT_TRUE(raw.Connect(EncodeConnectRequest(request)).ok());
  ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kHello))).ok());
  ASSERT_TRUE(raw.Receive(FrameType::kWelcome).ok());
  ASSERT_TRUE(raw.Send(FrameText(raw.ArenaRequest(0, kEcho, 0, 100000))).ok());
  EXPECT_TRUE(raw.AwaitEnd().ok());
  EXPECT_TRUE(server_.AwaitConnections(1));
  EXPECT_EQ(server_.handler().calls(), 0);
}

TEST_F(HostileClientMemoryTest, LosesItsConnectionForMemoryThatMayNotBeRead) {
  RawPeer::Options options;
  options.arena_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  RawPeer& raw = Opened(options);
  ASSERT_TRUE(raw.Send(FrameText(raw.ArenaRequest(0, kEcho, 0, 100000))).ok());
  EXPECT_TRUE(raw.AwaitEnd().ok());
  EXPECT_EQ(server_.handler().calls(), 0);
}

TEST_F(HostileClientMemoryTest,
       LosesItsConnectionForAnArenaLargerThanItsMemory) {
  RawPeer& raw = Raw();
  ConnectRequest request = raw.Request();
  request.arena.bytes = uint64_t{1} << 32;
  ASSERT_TRUE(raw.Connect(EncodeConnectRequest(request)).ok());
  ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kHello))).ok());
  ASSERT_TRUE(raw.Receive(FrameType::kWelcome).ok());
  ASSERT_TRUE(
      raw.Send(FrameText(raw.ArenaRequest(0, kEcho, 2 << 20, 100000))).ok());
  EXPECT_TRUE(raw.AwaitEnd().ok());
  EXPECT_EQ(server_.handler().calls(), 0);
}

// --- Limits ------------------------------------------------------------------

TEST_F(HostileClientMemoryTest, GetsARefusalForAHugeRequest) {
  RawPeer& raw = Raw();
  ASSERT_NO_FATAL_FAILURE(OpenWithHugeArena(raw));
  uint32_t call_id = 0;
  for (const uint32_t bytes :
       {uint32_t{kDefaultMaxMessageBytes} + 1, UINT32_MAX}) {
    ExpectRefusal(raw, raw.ArenaRequest(call_id++, kEcho, 0, bytes));
  }
  EXPECT_EQ(server_.handler().calls(), 0);
}

TEST_F(HostileClientMemoryTest, GetsARefusalForAHugeAttachment) {
  RawPeer& raw = Raw();
  ASSERT_NO_FATAL_FAILURE(OpenWithHugeArena(raw));
  uint32_t call_id = 0;
  for (const auto& [message, attachment] :
       {std::pair(0u, uint32_t{kDefaultMaxMessageBytes} + 1),
        std::pair(0u, UINT32_MAX), std::pair(10u, UINT32_MAX),
        std::pair(uint32_t{kDefaultMaxMessageBytes},
                  uint32_t{kDefaultMaxMessageBytes})}) {
    RequestHeader huge = raw.ArenaRequest(call_id++, kEcho, 0, message);
    if (message == 0) huge.frame.flags = 0;
    huge.frame.flags |= kFlagAttachmentInArena;
    huge.attachment_bytes = attachment;
    ExpectRefusal(raw, huge);
  }
  EXPECT_EQ(server_.handler().calls(), 0);
}

TEST_F(HostileClientMemoryTest, GetsItsAttachmentBack) {
  RawPeer& raw = Opened();
  RequestHeader request = raw.InlineRequest(0, kEcho, 0);
  request.attachment_bytes = 10;
  ASSERT_TRUE(raw.Send(FrameText(request, TestBytes(10))).ok());
  const absl::StatusOr<std::string> response =
      raw.Receive(FrameType::kResponse);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->substr(sizeof(ResponseHeader)), TestBytes(10));
  EXPECT_EQ(HeaderOf<ResponseHeader>(*response).attachment_bytes, 10u);
}

// The lease would do for the message, but not for the attachment behind it.
TEST_F(HostileClientMemoryTest, GetsNothingWrittenBehindItsLease) {
  RawPeer& raw = Opened();
  RequestHeader request = raw.ArenaRequest(0, kEcho, 0, 10000);
  request.frame.flags |= kFlagAttachmentInArena | kFlagReplyLease;
  request.attachment_offset = 16384;
  request.attachment_bytes = 10000;
  request.reply_offset = 65536;
  request.reply_bytes = 10048 + 10000 - 1;
  std::fill_n(raw.arena() + request.reply_offset, 65536, uint8_t{0xee});
  ASSERT_TRUE(raw.Send(FrameText(request)).ok());
  const absl::StatusOr<std::string> pending =
      raw.Receive(FrameType::kResponsePending);
  ASSERT_TRUE(pending.ok()) << pending.status();
  const auto header = HeaderOf<ResponsePendingHeader>(*pending);
  EXPECT_EQ(header.message_bytes, 10000u);
  EXPECT_EQ(header.attachment_bytes, 10000u);
  LeaseHeader lease = {};
  lease.frame = raw.Header(FrameType::kLease, 0);
  lease.offset = request.reply_offset;
  lease.bytes = request.reply_bytes + 1;
  ASSERT_TRUE(raw.Send(FrameText(lease)).ok());
  ASSERT_TRUE(raw.Receive(FrameType::kResponse).ok());
  EXPECT_EQ(raw.arena()[request.reply_offset + lease.bytes], 0xee);
}

// --- Clients that do not take part -------------------------------------------

// The client posts no receives, so the server's WELCOME cannot arrive.
TEST_F(HostileClientMemoryTest, LosesItsConnectionWhenItNeverReads) {
  EndpointOptions options = TestOptions();
  options.keepalive_time = absl::Milliseconds(500);
  options.keepalive_timeout = absl::Milliseconds(500);
  TestServer server(options);
  RawPeer::Options no_receives;
  no_receives.receives = 0;
  absl::StatusOr<std::unique_ptr<RawPeer>> raw =
      RawPeer::Create(server.address(), no_receives);
  ASSERT_TRUE(raw.ok()) << raw.status();
  ASSERT_TRUE((*raw)->Connect(EncodeConnectRequest((*raw)->Request())).ok());
  // The good client must answer PINGs, so from here on it is polled.
  TestClient good(server.address());
  const auto connections = [&server](uint32_t count) {
    return server.endpoint().connection_count() == count;
  };
  ASSERT_TRUE(good.RunUntil([&] { return connections(2); }));
  ASSERT_TRUE((*raw)->Send(FrameText((*raw)->Header(FrameType::kHello))).ok());
  EXPECT_TRUE(good.RunUntil([&] { return connections(1); }));
  EXPECT_TRUE(good.Echo(100).ok());
}

// The client reads, but grants no credits. Its replies wait, and those of other
// clients do not.
TEST_F(HostileClientMemoryTest, HoldsUpNobodyWhenItGrantsNothing) {
  RawPeer& raw = Opened();
  // The WELCOME took one of the credits that the server began with.
  for (uint32_t i = 0; i < kCredits + 10; ++i) {
    RequestHeader request = raw.InlineRequest(i, kDiscard, 0);
    request.frame.credit_limit = kCredits;
    ASSERT_TRUE(raw.Send(FrameText(request)).ok());
    if (i < kCredits - 1) {
      ASSERT_TRUE(raw.Receive(FrameType::kResponse).ok()) << i;
    }
  }
  ASSERT_TRUE(raw.Flush().ok());
  EXPECT_EQ(good_.Echo(10), absl::OkStatus());
  // The others come with the next credits.
  ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kGrant))).ok());
  for (int i = 0; i < 11; ++i) {
    ASSERT_TRUE(raw.Receive(FrameType::kResponse).ok()) << i;
  }
}

TEST_F(HostileClientMemoryTest, LosesItsConnectionWhenItIsSilent) {
  EndpointOptions options = TestOptions();
  options.keepalive_time = absl::Milliseconds(50);
  options.keepalive_timeout = absl::Milliseconds(50);
  TestServer server(options);
  absl::StatusOr<std::unique_ptr<RawPeer>> raw =
      RawPeer::Create(server.address(), RawPeer::Options());
  ASSERT_TRUE(raw.ok()) << raw.status();
  ASSERT_TRUE((*raw)->Open().ok());
  EXPECT_TRUE((*raw)->Receive(FrameType::kPing).ok());
  EXPECT_TRUE((*raw)->AwaitEnd().ok());
  EXPECT_TRUE(server.AwaitConnections(0));
}

TEST_F(HostileClientMemoryTest, LosesItsConnectionWhenItNeverSaysHello) {
  EndpointOptions options = TestOptions();
  options.connect_timeout = absl::Milliseconds(100);
  TestServer server(options);
  absl::StatusOr<std::unique_ptr<RawPeer>> raw =
      RawPeer::Create(server.address(), RawPeer::Options());
  ASSERT_TRUE(raw.ok()) << raw.status();
  ASSERT_TRUE((*raw)->Connect(EncodeConnectRequest((*raw)->Request())).ok());
  EXPECT_TRUE((*raw)->AwaitEnd().ok());
  EXPECT_TRUE(server.AwaitConnections(0));
}

TEST_F(HostileClientMemoryTest, MayHaveItsOwnReasonsToGo) {
  RawPeer& raw = Opened();
  ASSERT_TRUE(raw.Send(FrameText(raw.InlineRequest(0, kHold, 0))).ok());
  ASSERT_TRUE(server_.handler().AwaitHeld(1));
  ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kBye), "enough")).ok());
  EXPECT_TRUE(raw.AwaitEnd().ok());
  EXPECT_TRUE(server_.handler().AwaitCancelled(1));
}

TEST_F(HostileClientMemoryTest, GetsAnAnswerToEveryPing) {
  RawPeer& raw = Opened();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kPing))).ok());
    EXPECT_TRUE(raw.Receive(FrameType::kPong).ok());
  }
}

TEST_F(HostileClientMemoryTest, GoesWithCallsOfEveryKindOpen) {
  for (int round = 0; round < 5; ++round) {
    RawPeer& raw = Opened();
    ASSERT_TRUE(raw.Send(FrameText(raw.InlineRequest(0, kHold, 0))).ok());
    ASSERT_TRUE(
        raw.Send(FrameText(raw.ArenaRequest(1, kEcho, 0, 1 << 20))).ok());
    ASSERT_TRUE(raw.Send(FrameText(raw.ArenaRequest(2, kHold, 0, 9000))).ok());
    if (round > 0) {
      ASSERT_TRUE(raw.Flush().ok());
    }
    if (round > 1) {
      ASSERT_TRUE(raw.Receive(FrameType::kResponsePending).ok());
    }
    raw_.reset();
  }
  EXPECT_TRUE(server_.AwaitConnections(1));
}

}  // namespace
}  // namespace verbena::transport
