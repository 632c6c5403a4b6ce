// Clients that send what they must not: each is told why it loses its
// connection, and a good client goes on being served.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/transport/hostile_client_fixture.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/limits.h"
#include "transport/base/test_seed.h"
#include "transport/wire/frame.h"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;

using HostileClientFramesTest = HostileClientFixture;

// --- Frames ------------------------------------------------------------------

TEST_F(HostileClientFramesTest, MustNotSendGarbage) {
  std::mt19937 random(base::TestSeed());
  for (const size_t length : {0, 1, 15, 16, 64, 1000, 8192}) {
    std::string garbage(length, '\0');
    for (char& byte : garbage) byte = static_cast<char>(random());
    EXPECT_THAT(ByeTo({garbage}), HasSubstr("broke the protocol")) << length;
  }
}

TEST_F(HostileClientFramesTest, RefusesACallAfterTheClientsGoAway) {
  const std::string goes = FrameText(Plain(FrameType::kGoAway));
  EXPECT_THAT(ByeTo({goes, goes, FrameText(Request(1))}),
              HasSubstr("after its GOAWAY"));
}

TEST_F(HostileClientFramesTest, MustNotSendUnknownFrames) {
  for (const uint8_t type : {0, kLastFrameType + 1, 255}) {
    EXPECT_THAT(ByeTo({FrameText(Plain(static_cast<FrameType>(type)))}),
                HasSubstr("unknown frame type"));
  }
}

TEST_F(HostileClientFramesTest, MustNotSendFramesOfAServer) {
  EXPECT_THAT(ByeTo({FrameText(Plain(FrameType::kWelcome))}),
              HasSubstr("only servers send"));
  ResponseHeader response = {};
  response.frame = Plain(FrameType::kResponse, 1);
  EXPECT_THAT(ByeTo({FrameText(response)}), HasSubstr("only servers send"));
}

TEST_F(HostileClientFramesTest, MustContinueWhatItBeganAndNothingElse) {
  FrameHeader part = Plain(FrameType::kContinuation, 7);
  const std::string more = FrameText(part, TestBytes(100));
  EXPECT_THAT(ByeTo({more}), HasSubstr("had not begun"));

  RequestHeader request = Request(7, 10000);
  request.frame.flags = kFlagContinued;
  request.frame.header_bytes = sizeof(request);
  request.frame.body_bytes = 10000;
  std::string begin(reinterpret_cast<const char*>(&request), sizeof(request));
  begin += TestBytes(5000);
  EXPECT_THAT(ByeTo({begin, begin}),
              HasSubstr("before the end of one that it continues"));
  EXPECT_THAT(ByeTo({begin, FrameText(Request(8))}),
              HasSubstr("before the end of one that it continues"));
  part.call_id = 8;
  EXPECT_THAT(ByeTo({begin, FrameText(part, TestBytes(5000))}),
              HasSubstr("before the end of one that it continues"));
  part.call_id = 7;
  EXPECT_THAT(ByeTo({begin, FrameText(part, TestBytes(5001))}),
              HasSubstr("beyond its length"));
  EXPECT_THAT(ByeTo({begin, FrameText(part, TestBytes(4999)),
                     FrameText(part, TestBytes(2))}),
              HasSubstr("beyond its length"));
  EXPECT_THAT(ByeTo({begin, FrameText(part)}), HasSubstr("empty"));
}

TEST_F(HostileClientFramesTest, MustNotContinueForEver) {
  RequestHeader request = Request(7, kContinuedBytesMax + 1);
  request.frame.flags = kFlagContinued;
  request.frame.header_bytes = sizeof(request);
  request.frame.body_bytes = request.message_bytes;
  const std::string begin(reinterpret_cast<const char*>(&request),
                          sizeof(request));
  EXPECT_THAT(ByeTo({begin}), HasSubstr("too long"));
}

TEST_F(HostileClientFramesTest, MayGoInTheMiddleOfAFrame) {
  RawPeer& raw = Opened();
  RequestHeader request = raw.InlineRequest(0, kEcho, 10000);
  request.frame.flags = kFlagContinued;
  request.frame.header_bytes = sizeof(request);
  request.frame.body_bytes = 10000;
  std::string begin(reinterpret_cast<const char*>(&request), sizeof(request));
  ASSERT_TRUE(raw.Send(begin + TestBytes(5000)).ok());
  ASSERT_TRUE(raw.Flush().ok());
  raw.Disconnect();
  EXPECT_EQ(server_.handler().calls(), 0);
}

TEST_F(HostileClientFramesTest, MustNotLieAboutLengths) {
  std::string longer = FrameText(Request(0, 10), TestBytes(10));
  longer.push_back('x');
  EXPECT_THAT(ByeTo({longer}), HasSubstr("length"));
  EXPECT_THAT(ByeTo({FrameText(Request(0, 11), TestBytes(10))}),
              HasSubstr("parts do not fill the body"));
  RequestHeader metadata = Request(0, 10);
  metadata.metadata_bytes = 11;
  EXPECT_THAT(ByeTo({FrameText(metadata, TestBytes(10))}),
              HasSubstr("parts do not fill the body"));
  metadata.metadata_bytes = kFrameMetadataBytes + 1;
  EXPECT_THAT(ByeTo({FrameText(metadata, TestBytes(kFrameMetadataBytes + 11))}),
              HasSubstr("metadata too long"));
}

TEST_F(HostileClientFramesTest, MustNotSendFramesLargerThanASlot) {
  RawPeer& raw = Opened();
  const uint32_t bytes = kBufferBytes - sizeof(RequestHeader) + 1;
  ASSERT_TRUE(
      raw.Send(FrameText(raw.InlineRequest(0, kEcho, bytes), TestBytes(bytes)))
          .ok());
  // Its SEND cannot be received.
  EXPECT_FALSE(raw.Flush().ok());
  EXPECT_TRUE(raw.AwaitEnd().ok());
}

// A WRITE of no bytes needs no memory that the client may write. The server's
// queue pair refuses it all the same, because it takes no WRITEs.
TEST_F(HostileClientFramesTest, MustNotTakeAReceiveWithAWrite) {
  RawPeer& raw = Opened();
  ASSERT_TRUE(raw.WriteWithImmediate(0, 0, 0).ok());
  EXPECT_FALSE(raw.Flush().ok());
  EXPECT_TRUE(raw.AwaitEnd().ok());
}

// --- Calls -------------------------------------------------------------------

TEST_F(HostileClientFramesTest, MustNotUseASlotTwice) {
  EXPECT_THAT(ByeTo({FrameText(Request(5)), FrameText(Request(5))}),
              HasSubstr("slot that is in use"));
  // Another generation of it neither.
  EXPECT_THAT(ByeTo({FrameText(Request(5)), FrameText(Request(0x10005))}),
              HasSubstr("slot that is in use"));
}

TEST_F(HostileClientFramesTest, MustNotUseASlotBeyondTheLimit) {
  EXPECT_THAT(ByeTo({FrameText(Request(kDefaultMaxOpenCalls))}),
              HasSubstr("slot beyond the limit"));
  EXPECT_THAT(ByeTo({FrameText(Plain(FrameType::kCancel, 0xffff))}),
              HasSubstr("slot beyond the limit"));
}

TEST_F(HostileClientFramesTest, MayCancelWhatIsNotThere) {
  RawPeer& raw = Opened();
  ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kCancel, 3))).ok());
  ASSERT_TRUE(raw.Send(FrameText(raw.InlineRequest(3, kDiscard, 0))).ok());
  EXPECT_TRUE(raw.Receive(FrameType::kResponse).ok());
}

// --- Credits -----------------------------------------------------------------

// A client that does not say that it has read a GRANT gets no other one.
TEST_F(HostileClientFramesTest, MustNotSendMoreThanItsCredits) {
  RawPeer& raw = Opened(Careless());
  const std::string cancel = FrameText(raw.Header(FrameType::kCancel, 1));
  // The WELCOME gave back what the HELLO took; one GRANT follows the first.
  for (uint32_t i = 0; i < kIdleCredits + 2; ++i) {
    ASSERT_TRUE(raw.Send(cancel).ok());
  }
  // A flood is not argued with.
  EXPECT_THAT(raw.AwaitBye(), HasSubstr("no BYE"));
  EXPECT_EQ(good_.Echo(10), absl::OkStatus());
}

TEST_F(HostileClientFramesTest, MayUseEveryCreditAgainAndAgain) {
  RawPeer& raw = Opened();
  const std::string cancel = FrameText(raw.Header(FrameType::kCancel, 1));
  for (uint32_t i = 0; i < 3 * kCredits; ++i) {
    ASSERT_TRUE(raw.Send(cancel).ok());
  }
  ASSERT_TRUE(raw.Flush().ok());
  EXPECT_EQ(good_.Echo(10), absl::OkStatus());
  EXPECT_EQ(server_.endpoint().connection_count(), 2u);
}

TEST_F(HostileClientFramesTest, StarvesNobodyWithAFlood) {
  RawPeer& raw = Opened();
  const std::string ping = FrameText(raw.Header(FrameType::kPing));
  for (int i = 0; i < 20; ++i) {
    for (uint32_t k = 0; k < 10; ++k) ASSERT_TRUE(raw.Send(ping).ok());
    const absl::Status status = good_.Echo(100);
    ASSERT_TRUE(status.ok()) << status;
  }
}

TEST_F(HostileClientFramesTest, StarvesNobodyWithAFloodBeyondItsCredits) {
  for (const FrameType type : {FrameType::kPing, FrameType::kGrant}) {
    RawPeer& raw = Opened(Careless());
    const std::string frame = FrameText(raw.Header(type));
    // Fails as soon as the server has had enough.
    for (int i = 0; i < 1000 && raw.Send(frame).ok(); ++i) {
    }
    EXPECT_TRUE(raw.AwaitEnd().ok());
    EXPECT_EQ(good_.Echo(100), absl::OkStatus());
  }
}

// The server waits half a second until the BYE has arrived, here in vain.
TEST_F(HostileClientFramesTest, SendsNothingBeyondItsCreditsAfterAnError) {
  constexpr int kMost = kCredits + kGrantReceives + 1;  // And a BYE of its own.
  RawPeer::Options options = Careless();
  options.receives = 1;  // For the WELCOME.
  options.keep_receives = false;
  RawPeer& raw = Opened(options);
  ASSERT_TRUE(raw.Send(FrameText(Plain(FrameType::kLease))).ok());
  const std::string ping = FrameText(raw.Header(FrameType::kPing));
  int taken = 0;
  // An answer that comes after a frame proves that the poller has read that.
  while (taken <= kMost && raw.Send(ping).ok() && raw.Flush().ok()) {
    ASSERT_EQ(good_.Echo(10), absl::OkStatus());
    ++taken;
  }
  EXPECT_LE(taken, kMost);
  EXPECT_TRUE(raw.AwaitEnd().ok());
}

// All clients of a server share its receives. While one of them floods it, the
// SENDs of the others find none, until the server's poller has cut the flood
// off; and that waits for a processor as long as it must.
TEST_F(HostileClientFramesTest, ClientsTryUntilThereIsAReceive) {
  const absl::StatusOr<int> retries = Opened().ReceiverNotReadyRetries();
  ASSERT_TRUE(retries.ok()) << retries.status();
  EXPECT_EQ(*retries, 7);
}

TEST_F(HostileClientFramesTest, TenFloodersStarveNobodyWhoComesAfterThem) {
  std::vector<std::unique_ptr<RawPeer>> raws;
  for (int i = 0; i < 10; ++i) {
    raws.push_back(*RawPeer::Create(server_.address(), Careless()));
    const absl::Status status = raws.back()->Open();
    ASSERT_TRUE(status.ok()) << status;
  }
  std::vector<std::thread> flooders;
  for (const std::unique_ptr<RawPeer>& raw : raws) {
    flooders.emplace_back([&raw] {
      const std::string ping = FrameText(raw->Header(FrameType::kPing));
      for (int i = 0; i < 1000 && raw->Send(ping).ok(); ++i) {
      }
      EXPECT_TRUE(raw->AwaitEnd().ok());
    });
  }
  TestClient late(server_.address());
  for (int i = 0; i < 100; ++i) {
    const absl::Status status = late.Echo(100);
    EXPECT_TRUE(status.ok()) << status;
  }
  for (std::thread& flooder : flooders) flooder.join();
}

TEST_F(HostileClientFramesTest, MustNotGrantNothing) {
  const std::string grant = FrameText(Plain(FrameType::kGrant));
  EXPECT_THAT(ByeTo({grant, grant}), HasSubstr("no BYE"));
}

TEST_F(HostileClientFramesTest, MustNotGrantTwiceInARow) {
  RawPeer::Options options;
  options.credits = 8;
  RawPeer& raw = Opened(options);
  FrameHeader grant = raw.Header(FrameType::kGrant);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(raw.Send(FrameText(grant)).ok());
    ++grant.credit_limit;
  }
  EXPECT_THAT(raw.AwaitBye(), HasSubstr("no BYE"));
}

TEST_F(HostileClientFramesTest, MustNotReadGrantsThatWereNotSent) {
  RawPeer& raw = Opened(Careless());
  FrameHeader ping = raw.Header(FrameType::kPing);
  ping.flags = kFlagGrantRead;
  ASSERT_TRUE(raw.Send(FrameText(ping)).ok());
  EXPECT_THAT(raw.AwaitBye(), HasSubstr("read a GRANT that was not sent"));
}

TEST_F(HostileClientFramesTest, MustNotGiveBackWhatItDoesNotHave) {
  for (const uint32_t credits : {kIdleCredits, kCredits, UINT32_MAX}) {
    ReturnHeader header = {};
    header.frame = Plain(FrameType::kReturn);
    header.credits = credits;
    EXPECT_THAT(ByeTo({FrameText(header)}), HasSubstr("did not have"));
  }
}

TEST_F(HostileClientFramesTest, MustNotTakeBackItsCreditLimit) {
  FrameHeader header = Plain(FrameType::kPing);
  header.credit_limit = kCredits - 1;
  EXPECT_THAT(ByeTo({FrameText(header)}), HasSubstr("credit limit"));
}

TEST_F(HostileClientFramesTest, MustNotGrantMoreThanItsWindow) {
  FrameHeader header = Plain(FrameType::kPing);
  for (const uint32_t limit : {kCredits + 2, kCredits + 1000, UINT32_MAX}) {
    header.credit_limit = limit;
    EXPECT_THAT(ByeTo({FrameText(header)}), HasSubstr("credit limit"));
  }
}

}  // namespace
}  // namespace verbena::transport
