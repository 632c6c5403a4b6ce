// A live server and clients that lie to it: each is told why and loses its
// connection, and a good client goes on being served.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tests/testing/transport_client.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/check.h"
#include "transport/base/limits.h"
#include "transport/base/test_seed.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;
using testing_support::TestBytes;
using testing_support::TestClient;
using testing_support::TestMethod;
using testing_support::TestOptions;
using testing_support::TestServer;

constexpr uint64_t kEcho = static_cast<uint64_t>(TestMethod::kEcho);
constexpr uint64_t kHold = static_cast<uint64_t>(TestMethod::kHold);
constexpr uint64_t kDiscard = static_cast<uint64_t>(TestMethod::kDiscard);

class HostileClientTest : public testing::Test {
 protected:
  HostileClientTest() : good_(server_.address()) {}
  ~HostileClientTest() override {
    EXPECT_TRUE(good_.Echo(100).ok());
    EXPECT_TRUE(good_.Echo(100000).ok());
    raw_.reset();
    EXPECT_TRUE(server_.AwaitConnections(1));
  }

  // A raw client that has said nothing yet, or everything up to the WELCOME.
  RawPeer& Raw(const RawPeer::Options& options = {}) {
    absl::StatusOr<std::unique_ptr<RawPeer>> raw =
        RawPeer::Create(server_.address(), options);
    CHECK(raw.ok()) << raw.status().ToString();
    raw_ = *std::move(raw);
    return *raw_;
  }
  RawPeer& Opened(const RawPeer::Options& options = {}) {
    RawPeer& raw = Raw(options);
    const absl::Status status = raw.Open();
    CHECK(status.ok()) << status.ToString();
    return raw;
  }

  // Connects with `private_data`. Returns the reason in the rejection.
  Reject Rejection(const std::string& private_data) {
    const absl::StatusOr<CmEvent> event = Raw().Connect(private_data);
    EXPECT_TRUE(event.ok()) << event.status();
    if (!event.ok()) return {};
    EXPECT_EQ(event->type, RDMA_CM_EVENT_REJECTED);
    EXPECT_EQ(event->status, kRejectByApplication);
    const absl::StatusOr<Reject> reject = DecodeReject(event->private_data());
    EXPECT_TRUE(reject.ok()) << reject.status();
    return reject.ok() ? *reject : Reject{};
  }

  // Sends `frames` on a good connection; what the BYE says to that.
  std::string ByeTo(const std::vector<std::string>& frames) {
    RawPeer& raw = Opened();
    for (const std::string& frame : frames) {
      EXPECT_TRUE(raw.Send(frame).ok());
    }
    const std::string bye = raw.AwaitBye();
    EXPECT_TRUE(raw.AwaitEnd().ok());
    return bye;
  }

  // A request header for ByeTo(): its only field that depends on the peer is
  // the credit limit, and at the beginning that is the same for all.
  static RequestHeader Request(uint32_t call_id, uint32_t message_bytes = 0) {
    RequestHeader request = {};
    request.frame = Plain(FrameType::kRequest, call_id);
    request.method_id = kHold;
    request.timeout_us = kNoTimeout;
    request.message_bytes = message_bytes;
    return request;
  }
  static FrameHeader Plain(FrameType type, uint32_t call_id = 0) {
    FrameHeader header = {};
    header.type = type;
    header.credit_limit = kCredits + 1;  // The WELCOME was one.
    header.call_id = call_id;
    return header;
  }

  TestServer server_;
  TestClient good_;
  std::unique_ptr<RawPeer> raw_;
};

// --- Connecting -------------------------------------------------------------

TEST_F(HostileClientTest, IsRejectedForAnotherVersion) {
  std::string data = EncodeConnectRequest(Raw().Request());
  data[4] = kProtocolVersion + 1;
  const Reject reject = Rejection(data);
  EXPECT_EQ(reject.reason, RejectReason::kBadVersion);
  EXPECT_THAT(reject.text, HasSubstr("version"));
}

TEST_F(HostileClientTest, IsRejectedForSayingNothing) {
  EXPECT_EQ(Rejection("").reason, RejectReason::kBadHello);
}

TEST_F(HostileClientTest, IsRejectedForGarbage) {
  std::mt19937 random(base::TestSeed());
  for (int round = 0; round < 5; ++round) {
    std::string data(kConnectPrivateBytesMax, '\0');
    for (char& byte : data) byte = static_cast<char>(random());
    EXPECT_EQ(Rejection(data).reason, RejectReason::kBadHello);
  }
}

TEST_F(HostileClientTest, IsRejectedForHalfAHello) {
  const std::string whole = EncodeConnectRequest(Raw().Request());
  // Devices pad what is missing with zeros, so it takes more than a byte or
  // two.
  for (const size_t length : {1, 7, 8, 12, 23, 24}) {
    SCOPED_TRACE(length);
    EXPECT_EQ(Rejection(whole.substr(0, length)).reason,
              RejectReason::kBadHello);
  }
}

TEST_F(HostileClientTest, IsRejectedForAnArenaThatWrapsAround) {
  ConnectRequest request = Raw().Request();
  request.arena.address = std::numeric_limits<uint64_t>::max() - 100;
  EXPECT_EQ(Rejection(EncodeConnectRequest(request)).reason,
            RejectReason::kBadHello);
}

TEST_F(HostileClientTest, IsRejectedForGrantingNoCredits) {
  ConnectRequest request = Raw().Request();
  request.limits.credits = 0;
  EXPECT_EQ(Rejection(EncodeConnectRequest(request)).reason,
            RejectReason::kBadHello);
}

TEST_F(HostileClientTest, IsAcceptedWithPaddingBehindItsHello) {
  RawPeer& raw = Raw();
  std::string data = EncodeConnectRequest(raw.Request());
  data.resize(kConnectPrivateBytesMax, '\0');
  const absl::StatusOr<CmEvent> event = raw.Connect(data);
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(event->type, RDMA_CM_EVENT_ESTABLISHED);
}

TEST_F(HostileClientTest, IsForgottenWhenItLeavesWithoutAHello) {
  RawPeer& raw = Raw();
  ASSERT_TRUE(raw.Connect(EncodeConnectRequest(raw.Request())).ok());
  ASSERT_TRUE(server_.AwaitConnections(2));
  raw.Disconnect();
  EXPECT_TRUE(server_.AwaitConnections(1));
}

// --- The first frames -------------------------------------------------------

TEST_F(HostileClientTest, MustBeginWithAHello) {
  RawPeer& raw = Raw();
  ASSERT_TRUE(raw.Connect(EncodeConnectRequest(raw.Request())).ok());
  ASSERT_TRUE(raw.Send(FrameText(raw.InlineRequest(0, kEcho, 0))).ok());
  EXPECT_THAT(raw.AwaitBye(), HasSubstr("before its HELLO"));
}

TEST_F(HostileClientTest, MustSayHelloOnce) {
  EXPECT_THAT(ByeTo({FrameText(Plain(FrameType::kHello))}),
              HasSubstr("second HELLO"));
}

TEST_F(HostileClientTest, MustNotSendBrokenOptions) {
  RawPeer& raw = Raw();
  ASSERT_TRUE(raw.Connect(EncodeConnectRequest(raw.Request())).ok());
  ASSERT_TRUE(
      raw.Send(FrameText(raw.Header(FrameType::kHello), "\x01\x00\xff")).ok());
  EXPECT_THAT(raw.AwaitBye(), HasSubstr("option"));
}

TEST_F(HostileClientTest, MustNotDemandWhatTheServerDoesNotKnow) {
  RawPeer& raw = Raw();
  ASSERT_TRUE(raw.Connect(EncodeConnectRequest(raw.Request())).ok());
  ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kHello),
                                 EncodeOptions({{kCriticalOption | 77, ""}})))
                  .ok());
  EXPECT_THAT(raw.AwaitBye(), HasSubstr("option"));
}

// --- Frames -----------------------------------------------------------------

TEST_F(HostileClientTest, MustNotSendGarbage) {
  std::mt19937 random(base::TestSeed());
  for (const size_t length : {0, 1, 15, 16, 64, 1000, 8192}) {
    std::string garbage(length, '\0');
    for (char& byte : garbage) byte = static_cast<char>(random());
    EXPECT_THAT(ByeTo({garbage}), HasSubstr("broke the protocol")) << length;
  }
}

TEST_F(HostileClientTest, MustNotSendUnknownFrames) {
  for (const uint8_t type : {0, kLastFrameType + 1, 255}) {
    EXPECT_THAT(ByeTo({FrameText(Plain(static_cast<FrameType>(type)))}),
                HasSubstr("unknown frame type"));
  }
}

TEST_F(HostileClientTest, MustNotSendFramesOfAServer) {
  EXPECT_THAT(ByeTo({FrameText(Plain(FrameType::kWelcome))}),
              HasSubstr("only servers send"));
  ResponseHeader response = {};
  response.frame = Plain(FrameType::kResponse, 1);
  EXPECT_THAT(ByeTo({FrameText(response)}), HasSubstr("only servers send"));
}

TEST_F(HostileClientTest, MustNotLieAboutLengths) {
  std::string longer = FrameText(Request(0, 10), TestBytes(10));
  longer.push_back('x');
  EXPECT_THAT(ByeTo({longer}), HasSubstr("length"));
  EXPECT_THAT(ByeTo({FrameText(Request(0, 11), TestBytes(10))}),
              HasSubstr("parts do not fill the body"));
  RequestHeader metadata = Request(0, 10);
  metadata.metadata_bytes = 11;
  EXPECT_THAT(ByeTo({FrameText(metadata, TestBytes(10))}),
              HasSubstr("parts do not fill the body"));
  metadata.metadata_bytes = kMaxMetadataBytes + 1;
  EXPECT_THAT(ByeTo({FrameText(metadata, TestBytes(kMaxMetadataBytes + 11))}),
              HasSubstr("metadata too long"));
}

TEST_F(HostileClientTest, MustNotSendFramesLargerThanASlot) {
  RawPeer& raw = Opened();
  const uint32_t bytes = kSlotBytes - sizeof(RequestHeader) + 1;
  ASSERT_TRUE(
      raw.Send(FrameText(raw.InlineRequest(0, kEcho, bytes), TestBytes(bytes)))
          .ok());
  // Its SEND cannot be received.
  EXPECT_FALSE(raw.Flush().ok());
  EXPECT_TRUE(raw.AwaitEnd().ok());
}

// --- Calls ------------------------------------------------------------------

TEST_F(HostileClientTest, MustNotUseASlotTwice) {
  EXPECT_THAT(ByeTo({FrameText(Request(5)), FrameText(Request(5))}),
              HasSubstr("slot that is in use"));
  // Another generation of it neither.
  EXPECT_THAT(ByeTo({FrameText(Request(5)), FrameText(Request(0x10005))}),
              HasSubstr("slot that is in use"));
}

TEST_F(HostileClientTest, MustNotUseASlotBeyondTheLimit) {
  EXPECT_THAT(ByeTo({FrameText(Request(kMaxOpenCalls))}),
              HasSubstr("slot beyond the limit"));
  EXPECT_THAT(ByeTo({FrameText(Plain(FrameType::kCancel, 0xffff))}),
              HasSubstr("slot beyond the limit"));
}

TEST_F(HostileClientTest, MayCancelWhatIsNotThere) {
  RawPeer& raw = Opened();
  ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kCancel, 3))).ok());
  ASSERT_TRUE(raw.Send(FrameText(raw.InlineRequest(3, kDiscard, 0))).ok());
  EXPECT_TRUE(raw.Receive(FrameType::kResponse).ok());
}

// --- Credits ----------------------------------------------------------------

// Credits come back as fast as the server can say so; only a client that does
// not let it can run out of them. This one has one receive, for the WELCOME.
TEST_F(HostileClientTest, MustNotSendMoreThanItsCredits) {
  RawPeer::Options options;
  options.receives = 1;
  options.keep_receives = false;
  RawPeer& raw = Opened(options);
  // Their PONGs fill the server's send queue.
  for (uint32_t i = 0; i < kFrameDepth + 10; ++i) {
    ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kPing))).ok());
  }
  ASSERT_TRUE(raw.Flush().ok());
  const std::string cancel = FrameText(raw.Header(FrameType::kCancel, 1));
  for (uint32_t i = 0; i < kCredits; ++i) {
    ASSERT_TRUE(raw.Send(cancel).ok());
  }
  ASSERT_TRUE(raw.Flush().ok());
  EXPECT_TRUE(good_.Echo(10).ok());
  EXPECT_EQ(server_.endpoint().connection_count(), 2u);
  ASSERT_TRUE(raw.Send(cancel).ok());
  EXPECT_TRUE(server_.AwaitConnections(1));
}

TEST_F(HostileClientTest, StarvesNobodyWithAFlood) {
  RawPeer& raw = Opened();
  const std::string ping = FrameText(raw.Header(FrameType::kPing));
  for (int i = 0; i < 20; ++i) {
    for (uint32_t k = 0; k < 2 * kReceivesPerConnection; ++k) {
      ASSERT_TRUE(raw.Send(ping).ok());
    }
    const absl::Status status = good_.Echo(100);
    ASSERT_TRUE(status.ok()) << status;
  }
}

TEST_F(HostileClientTest, MustNotTakeBackItsCreditLimit) {
  FrameHeader header = Plain(FrameType::kPing);
  header.credit_limit = kCredits - 1;
  EXPECT_THAT(ByeTo({FrameText(header)}), HasSubstr("credit limit"));
}

TEST_F(HostileClientTest, MustNotGrantMoreThanItsWindow) {
  FrameHeader header = Plain(FrameType::kPing);
  for (const uint32_t limit : {kCredits + 2, kCredits + 1000, UINT32_MAX}) {
    header.credit_limit = limit;
    EXPECT_THAT(ByeTo({FrameText(header)}), HasSubstr("credit limit"));
  }
}

// --- Arenas -----------------------------------------------------------------

TEST_F(HostileClientTest, MustNotNameARequestOutsideItsArena) {
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
TEST_F(HostileClientTest, MustNotLendMemoryOutsideItsArena) {
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

TEST_F(HostileClientTest, MustNotLendWhatNobodyAskedFor) {
  LeaseHeader lease = {};
  lease.frame = Plain(FrameType::kLease, 0);
  lease.bytes = 4096;
  EXPECT_THAT(ByeTo({FrameText(lease)}), HasSubstr("not asked for"));
  EXPECT_THAT(ByeTo({FrameText(Request(0)), FrameText(lease)}),
              HasSubstr("not asked for"));
}

TEST_F(HostileClientTest, MustOfferArenasInOrderAndWithinBounds) {
  ArenaHeader arena = {};
  arena.frame = Plain(FrameType::kArena);
  arena.address = 0x10000;
  arena.bytes = 0x10000;
  arena.index = 1;
  ArenaHeader wrong = arena;
  wrong.index = 2;
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

TEST_F(HostileClientTest, LosesItsConnectionForAWrongKey) {
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

TEST_F(HostileClientTest, LosesItsConnectionForMemoryThatMayNotBeRead) {
  RawPeer::Options options;
  options.arena_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  RawPeer& raw = Opened(options);
  ASSERT_TRUE(raw.Send(FrameText(raw.ArenaRequest(0, kEcho, 0, 100000))).ok());
  EXPECT_TRUE(raw.AwaitEnd().ok());
  EXPECT_EQ(server_.handler().calls(), 0);
}

TEST_F(HostileClientTest, LosesItsConnectionForAnArenaLargerThanItsMemory) {
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

// --- Limits -----------------------------------------------------------------

TEST_F(HostileClientTest, GetsARefusalForAHugeRequest) {
  RawPeer& raw = Raw();
  ConnectRequest request = raw.Request();
  request.arena.bytes = uint64_t{1} << 32;  // It only says so.
  ASSERT_TRUE(raw.Connect(EncodeConnectRequest(request)).ok());
  ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kHello))).ok());
  ASSERT_TRUE(raw.Receive(FrameType::kWelcome).ok());
  uint32_t call_id = 0;
  for (const uint32_t bytes :
       {uint32_t{kDefaultMaxMessageBytes} + 1, UINT32_MAX}) {
    ASSERT_TRUE(
        raw.Send(FrameText(raw.ArenaRequest(call_id++, kEcho, 0, bytes))).ok());
    const absl::StatusOr<std::string> response =
        raw.Receive(FrameType::kResponse);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(HeaderOf<ResponseHeader>(*response).code,
              static_cast<uint32_t>(absl::StatusCode::kResourceExhausted));
  }
  EXPECT_EQ(server_.handler().calls(), 0);
}

TEST_F(HostileClientTest, GetsARefusalForAnAttachment) {
  RawPeer& raw = Opened();
  RequestHeader request = raw.InlineRequest(0, kEcho, 0);
  request.attachment_bytes = 10;
  ASSERT_TRUE(raw.Send(FrameText(request, TestBytes(10))).ok());
  const absl::StatusOr<std::string> response =
      raw.Receive(FrameType::kResponse);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(HeaderOf<ResponseHeader>(*response).code,
            static_cast<uint32_t>(absl::StatusCode::kUnimplemented));
}

// --- Clients that do not take part ------------------------------------------

// It posts no receives: the server's WELCOME has nowhere to go.
TEST_F(HostileClientTest, LosesItsConnectionWhenItNeverReads) {
  EndpointOptions options = TestOptions();
  options.keepalive_time = absl::Milliseconds(500);
  options.keepalive_timeout = absl::Milliseconds(500);
  TestServer server(options);
  TestClient good(server.address());
  RawPeer::Options no_receives;
  no_receives.receives = 0;
  absl::StatusOr<std::unique_ptr<RawPeer>> raw =
      RawPeer::Create(server.address(), no_receives);
  ASSERT_TRUE(raw.ok()) << raw.status();
  ASSERT_TRUE((*raw)->Connect(EncodeConnectRequest((*raw)->Request())).ok());
  const auto connections = [&server](uint32_t count) {
    return server.endpoint().connection_count() == count;
  };
  ASSERT_TRUE(good.RunUntil([&] { return connections(2); }));
  ASSERT_TRUE((*raw)->Send(FrameText((*raw)->Header(FrameType::kHello))).ok());
  EXPECT_TRUE(good.RunUntil([&] { return connections(1); }));
  EXPECT_TRUE(good.Echo(100).ok());
}

// It reads, but grants nothing: replies wait, and hold up nobody else's.
TEST_F(HostileClientTest, HoldsUpNobodyWhenItGrantsNothing) {
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
  EXPECT_TRUE(good_.Echo(10).ok());
  // The others come with the next credits.
  ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kGrant))).ok());
  for (int i = 0; i < 11; ++i) {
    ASSERT_TRUE(raw.Receive(FrameType::kResponse).ok()) << i;
  }
}

TEST_F(HostileClientTest, LosesItsConnectionWhenItIsSilent) {
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

TEST_F(HostileClientTest, LosesItsConnectionWhenItNeverSaysHello) {
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

TEST_F(HostileClientTest, MayHaveItsOwnReasonsToGo) {
  RawPeer& raw = Opened();
  ASSERT_TRUE(raw.Send(FrameText(raw.InlineRequest(0, kHold, 0))).ok());
  ASSERT_TRUE(server_.handler().AwaitHeld(1));
  ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kBye), "enough")).ok());
  EXPECT_TRUE(raw.AwaitEnd().ok());
  EXPECT_TRUE(server_.handler().AwaitCancelled(1));
}

TEST_F(HostileClientTest, GetsAnAnswerToEveryPing) {
  RawPeer& raw = Opened();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kPing))).ok());
    EXPECT_TRUE(raw.Receive(FrameType::kPong).ok());
  }
}

TEST_F(HostileClientTest, GoesWithCallsOfEveryKindOpen) {
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
