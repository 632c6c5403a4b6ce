// Clients that lie while they connect: each is told why it is refused, and a
// good client goes on being served.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/transport/hostile_client_fixture.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/limits.h"
#include "transport/base/test_seed.h"
#include "transport/wire/checksum.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;

using HostileClientHelloTest = HostileClientFixture;

// --- Connecting --------------------------------------------------------------

TEST_F(HostileClientHelloTest, IsRejectedForAnotherVersion) {
  ConnectRequest request = Raw().Request();
  const uint8_t later = ProtocolVersions().highest + 1;
  request.versions = ProtocolVersions{later, later};
  const Reject reject = Rejection(EncodeConnectRequest(request));
  EXPECT_EQ(reject.reason, RejectReason::kBadVersion);
  EXPECT_THAT(reject.text, HasSubstr("version"));
}

TEST_F(HostileClientHelloTest, IsRejectedForSayingNothing) {
  EXPECT_EQ(Rejection("").reason, RejectReason::kBadHello);
}

TEST_F(HostileClientHelloTest, IsRejectedForGarbage) {
  std::mt19937 random(base::TestSeed());
  for (int round = 0; round < 5; ++round) {
    std::string data(kConnectPrivateBytesMax, '\0');
    for (char& byte : data) byte = static_cast<char>(random());
    EXPECT_EQ(Rejection(data).reason, RejectReason::kBadHello);
  }
}

TEST_F(HostileClientHelloTest, IsRejectedForHalfAHello) {
  const std::string whole = EncodeConnectRequest(Raw().Request());
  // Devices pad what is missing with zeros, so it takes more than a byte or
  // two.
  for (const size_t length : {1, 7, 8, 12, 23, 24}) {
    SCOPED_TRACE(length);
    EXPECT_EQ(Rejection(whole.substr(0, length)).reason,
              RejectReason::kBadHello);
  }
}

TEST_F(HostileClientHelloTest, IsRejectedForAnArenaThatWrapsAround) {
  ConnectRequest request = Raw().Request();
  request.arena.address = std::numeric_limits<uint64_t>::max() - 100;
  EXPECT_EQ(Rejection(EncodeConnectRequest(request)).reason,
            RejectReason::kBadHello);
}

TEST_F(HostileClientHelloTest, IsRejectedForGrantingNoCredits) {
  ConnectRequest request = Raw().Request();
  request.limits.credits = 0;
  EXPECT_EQ(Rejection(EncodeConnectRequest(request)).reason,
            RejectReason::kBadHello);
}

TEST_F(HostileClientHelloTest, IsAcceptedWithPaddingBehindItsHello) {
  RawPeer& raw = Raw();
  std::string data = EncodeConnectRequest(raw.Request());
  data.resize(kConnectPrivateBytesMax, '\0');
  const absl::StatusOr<CmEvent> event = raw.Connect(data);
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(event->type, RDMA_CM_EVENT_ESTABLISHED);
}

TEST_F(HostileClientHelloTest, IsForgottenWhenItLeavesWithoutAHello) {
  RawPeer& raw = Raw();
  ASSERT_TRUE(raw.Connect(EncodeConnectRequest(raw.Request())).ok());
  ASSERT_TRUE(server_.AwaitConnections(2));
  raw.Disconnect();
  EXPECT_TRUE(server_.AwaitConnections(1));
}

// --- The first frames --------------------------------------------------------

TEST_F(HostileClientHelloTest, MustBeginWithAHello) {
  RawPeer& raw = Raw();
  ASSERT_TRUE(raw.Connect(EncodeConnectRequest(raw.Request())).ok());
  ASSERT_TRUE(raw.Send(FrameText(raw.InlineRequest(0, kEcho, 0))).ok());
  EXPECT_THAT(raw.AwaitBye(), HasSubstr("before its HELLO"));
}

TEST_F(HostileClientHelloTest, MustSayHelloOnce) {
  EXPECT_THAT(ByeTo({FrameText(Plain(FrameType::kHello))}),
              HasSubstr("second HELLO"));
}

TEST_F(HostileClientHelloTest, MustNotSendBrokenOptions) {
  RawPeer& raw = Raw();
  ASSERT_TRUE(raw.Connect(EncodeConnectRequest(raw.Request())).ok());
  ASSERT_TRUE(
      raw.Send(FrameText(raw.Header(FrameType::kHello), "\x01\x00\xff")).ok());
  EXPECT_THAT(raw.AwaitBye(), HasSubstr("option"));
}

TEST_F(HostileClientHelloTest, MustNotDemandWhatTheServerDoesNotKnow) {
  RawPeer& raw = Raw();
  ASSERT_TRUE(raw.Connect(EncodeConnectRequest(raw.Request())).ok());
  ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kHello),
                                 EncodeOptions({{kCriticalOption | 77, ""}})))
                  .ok());
  EXPECT_THAT(raw.AwaitBye(), HasSubstr("option"));
}

// --- Checksums ---------------------------------------------------------------

class ChecksumHelloTest : public HostileClientFixture {
 protected:
  // Connects and says HELLO with that option.
  RawPeer& Greeted(const RawPeer::Options& peer = {},
                   const char* kind = kChecksumKind) {
    RawPeer& raw = Raw(peer);
    EXPECT_TRUE(raw.Connect(EncodeConnectRequest(raw.Request())).ok());
    EXPECT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kHello),
                                   EncodeOptions({{kOptionChecksum, kind}})))
                    .ok());
    return raw;
  }
  static std::string WithSums(std::string frame, const PartSums& parts = {}) {
    const auto bytes = static_cast<uint32_t>(frame.size());
    frame.resize(frame.size() + sizeof(FrameSums));
    AppendSums(reinterpret_cast<uint8_t*>(frame.data()), bytes, parts);
    return frame;
  }
};

// The reply is placed while the WELCOME, behind which sums begin, waits for a
// credit.
TEST_F(ChecksumHelloTest, ReplyThatWaitsBehindTheWelcomeLeavesRoomForThem) {
  RawPeer::Options options;
  options.credits = 1;
  RawPeer& raw = Raw(options);
  ASSERT_TRUE(raw.Connect(EncodeConnectRequest(raw.Request())).ok());
  const auto with_limit = [&raw](FrameHeader header, uint32_t limit) {
    header.credit_limit = limit;
    return header;
  };
  // The answer takes the only credit.
  ASSERT_TRUE(
      raw.Send(FrameText(with_limit(raw.Header(FrameType::kPing), 1))).ok());
  ASSERT_TRUE(raw.Receive(FrameType::kPong).ok());
  ASSERT_TRUE(
      raw.Send(FrameText(with_limit(raw.Header(FrameType::kHello), 1),
                         EncodeOptions({{kOptionChecksum, kChecksumKind}})))
          .ok());
  // Sums are of what a header says of GRANTs too.
  ASSERT_TRUE(raw.Receive(FrameType::kGrant).ok());
  constexpr uint32_t kBytes = kBufferBytes - sizeof(ResponseHeader) - 5;
  RequestHeader request = raw.ArenaRequest(0, kEcho, 0, kBytes);
  request.frame = with_limit(request.frame, 1);
  request.frame.flags |= raw.Header(FrameType::kRequest).flags;
  ASSERT_TRUE(raw.Send(WithSums(FrameText(request),
                                {.message = Crc32c({raw.arena(), kBytes})}))
                  .ok());
  ASSERT_TRUE(raw.Receive(FrameType::kGrant).ok());
  ASSERT_TRUE(
      raw.Send(WithSums(FrameText(with_limit(raw.Header(FrameType::kPing), 4))))
          .ok());
  for (FrameType type = FrameType::kWelcome;
       type != FrameType::kResponse && type != FrameType::kResponsePending;) {
    const absl::StatusOr<std::string> frame = raw.Receive();
    ASSERT_TRUE(frame.ok()) << frame.status();
    EXPECT_LE(frame->size(), kBufferBytes);
    type = HeaderOf<FrameHeader>(*frame).type;
    ASSERT_NE(type, FrameType::kBye) << frame->substr(sizeof(FrameHeader));
  }
}

TEST_F(ChecksumHelloTest, AreConfirmedAndStandBehindEachFrameFromThenOn) {
  RawPeer& raw = Greeted();
  const absl::StatusOr<std::string> welcome = raw.Receive(FrameType::kWelcome);
  ASSERT_TRUE(welcome.ok()) << welcome.status();
  EXPECT_EQ(welcome->substr(sizeof(FrameHeader)),
            EncodeOptions({{kOptionChecksum, kChecksumKind}}));
  ASSERT_TRUE(
      raw.Send(WithSums(FrameText(raw.InlineRequest(0, kEcho, 5), "hello")))
          .ok());
  const absl::StatusOr<std::string> reply = raw.Receive(FrameType::kResponse);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->size(), sizeof(ResponseHeader) + 5 + sizeof(FrameSums));
  EXPECT_EQ(*reply, WithSums(reply->substr(0, sizeof(ResponseHeader) + 5)));
}

TEST_F(ChecksumHelloTest, NothingMoreIsOnTheWireOfWhoDoesNotAsk) {
  RawPeer& raw = Raw();
  ASSERT_TRUE(raw.Connect(EncodeConnectRequest(raw.Request())).ok());
  ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kHello))).ok());
  const absl::StatusOr<std::string> welcome = raw.Receive(FrameType::kWelcome);
  ASSERT_TRUE(welcome.ok()) << welcome.status();
  EXPECT_EQ(welcome->size(), sizeof(FrameHeader));
  ASSERT_TRUE(
      raw.Send(FrameText(raw.InlineRequest(0, kEcho, 5), "hello")).ok());
  const absl::StatusOr<std::string> reply = raw.Receive(FrameType::kResponse);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->size(), sizeof(ResponseHeader) + 5);
}

TEST_F(ChecksumHelloTest, OfAnUnknownKindAreRefused) {
  EXPECT_THAT(Greeted({}, "md5").AwaitBye(),
              HasSubstr("demands checksums of the kind md5"));
}

TEST_F(ChecksumHelloTest, MayBeMissingOnlyWhereTheClientHasNotReadTheWelcome) {
  RawPeer& raw = Greeted();
  ASSERT_TRUE(raw.Receive(FrameType::kWelcome).ok());
  ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kPing))).ok());
  ASSERT_TRUE(raw.Receive(FrameType::kPong).ok());
  ASSERT_TRUE(raw.Send(WithSums(FrameText(raw.Header(FrameType::kPing)))).ok());
  ASSERT_TRUE(raw.Receive(FrameType::kPong).ok());
  ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kPing))).ok());
  EXPECT_THAT(raw.AwaitBye(), HasSubstr("PING by its header, too short"));
}

TEST_F(ChecksumHelloTest, ARequestWithoutThemIsRefused) {
  RawPeer& raw = Greeted();
  ASSERT_TRUE(raw.Receive(FrameType::kWelcome).ok());
  const int calls = server_.handler().calls();
  ASSERT_TRUE(
      raw.Send(FrameText(raw.InlineRequest(0, kEcho, 5), "hello")).ok());
  EXPECT_THAT(raw.AwaitBye(), HasSubstr("bytes were damaged"));
  EXPECT_EQ(server_.handler().calls(), calls);
}

TEST_F(ChecksumHelloTest, SoundOnesDoNotMakeAnUnsoundFrameGood) {
  RawPeer& raw = Greeted();
  ASSERT_TRUE(raw.Receive(FrameType::kWelcome).ok());
  RequestHeader request = raw.InlineRequest(0, kEcho, 5);
  request.message_bytes = 6;
  ASSERT_TRUE(raw.Send(WithSums(FrameText(request, "hello"))).ok());
  EXPECT_THAT(raw.AwaitBye(), HasSubstr("parts do not fill the body"));
}

}  // namespace
}  // namespace verbena::transport
