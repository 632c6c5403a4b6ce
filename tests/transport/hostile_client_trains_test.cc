// Clients that send malformed trains: each is told why it loses its connection,
// and a good client goes on being served.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/transport/hostile_client_fixture.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/limits.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;

class HostileClientTrainsTest : public HostileClientFixture {
 protected:
  static std::vector<HelloOption> Trains() { return {{kOptionTrains, ""}}; }

  // Sends a good REQUEST with `rest` behind it in one SEND. Returns the text of
  // the BYE.
  std::string ByeBehindARequest(const std::string& rest) {
    return ByeTo({TrainText({FrameText(Request(0)), rest})}, Trains());
  }
  // As ByeBehindARequest(), but with `header` as `rest`.
  template <typename Header>
  std::string ByeToFrame(const Header& header) {
    return ByeBehindARequest(
        std::string(reinterpret_cast<const char*>(&header), sizeof(header)));
  }
  static RequestHeader Second(uint32_t message_bytes = 0) {
    RequestHeader request = Behind(Request(1, message_bytes));
    request.frame.header_bytes = sizeof(request);
    request.frame.body_bytes = message_bytes;
    return request;
  }
};

TEST_F(HostileClientTrainsTest, MustAgreeOnTrainsFirst) {
  const std::string train =
      TrainText({FrameText(Request(0)), FrameText(Second())});
  EXPECT_THAT(ByeTo({train}),
              HasSubstr("length is not header_bytes + body_bytes"));
}

TEST_F(HostileClientTrainsTest, MustNotSendMoreFramesThanATrainMayHave) {
  std::vector<std::string> frames = {FrameText(Request(0))};
  for (uint32_t i = 1; i < kTrainFrames; ++i) {
    frames.push_back(FrameText(Behind(Request(i))));
  }
  RawPeer& raw = Opened({}, Trains());
  ASSERT_TRUE(raw.Send(TrainText(frames)).ok());
  ASSERT_TRUE(server_.handler().AwaitHeld(kTrainFrames));
  raw.Disconnect();
  frames.push_back(FrameText(Behind(Request(kTrainFrames))));
  EXPECT_THAT(ByeTo({TrainText(frames)}, Trains()),
              HasSubstr("more frames than may be"));
  // The server handles each frame before it looks at the next one.
  EXPECT_EQ(server_.handler().held(), static_cast<int>(2 * kTrainFrames));
}

TEST_F(HostileClientTrainsTest, MustNotCutTheLastFrameShort) {
  const std::string whole = FrameText(Second(10), TestBytes(10));
  for (const size_t bytes : {1, 7, 8, 15, 16, 17, 63, 64, 73}) {
    EXPECT_THAT(ByeBehindARequest(whole.substr(0, bytes)),
                HasSubstr("a train ends in the middle of a frame"))
        << bytes;
  }
}

TEST_F(HostileClientTrainsTest, MustNotEndATrainWithPadding) {
  // The first frame ends on a multiple of 8, or does not.
  for (const uint32_t message : {0, 3}) {
    const std::string first =
        FrameText(Request(0, message), TestBytes(message));
    for (const size_t bytes : {1, 5, 6, 8, 15, 100}) {
      EXPECT_THAT(ByeTo({first + std::string(bytes, '\0')}, Trains()),
                  HasSubstr("a train ends in the middle of a frame"))
          << bytes;
    }
  }
}

TEST_F(HostileClientTrainsTest, MustNotSendAnythingButCallsBehindACall) {
  for (const FrameType type :
       {FrameType::kPing, FrameType::kGrant, FrameType::kCancel,
        FrameType::kGoAway, FrameType::kHello, FrameType::kBye}) {
    FrameHeader header = Plain(type);
    header.credit_limit = 0;
    EXPECT_THAT(ByeBehindARequest(FrameText(header)),
                HasSubstr("neither REQUEST nor RESPONSE"));
  }
  EXPECT_THAT(ByeBehindARequest(FrameText(Plain(static_cast<FrameType>(0)))),
              HasSubstr("unknown frame type"));
}

TEST_F(HostileClientTrainsTest, MustNotSendCallsBehindAnythingElse) {
  for (const FrameType type : {FrameType::kPing, FrameType::kCancel,
                               FrameType::kGrant, FrameType::kBye}) {
    EXPECT_THAT(
        ByeTo({TrainText({FrameText(Plain(type)), FrameText(Second())})},
              Trains()),
        HasSubstr("length is not header_bytes + body_bytes"));
  }
}

TEST_F(HostileClientTrainsTest, MustNotSendFramesThatOnlyServersSend) {
  ResponseHeader response = {};
  response.frame.type = FrameType::kResponse;
  EXPECT_THAT(ByeBehindARequest(FrameText(response)),
              HasSubstr("only servers send"));
}

TEST_F(HostileClientTrainsTest, MustSpeakOfCreditsInTheFirstFrameOnly) {
  RequestHeader request = Second();
  request.frame.credit_limit = kCredits + 1;
  EXPECT_THAT(ByeToFrame(request), HasSubstr("has credit fields"));
  for (const uint8_t flag : {kFlagCreditsWanted, kFlagGrantRead}) {
    request = Second();
    request.frame.flags = flag;
    EXPECT_THAT(ByeToFrame(request), HasSubstr("has credit fields"));
  }
}

TEST_F(HostileClientTrainsTest, MustNotContinueAFrameOfATrain) {
  RequestHeader request = Second(10);
  request.frame.flags = kFlagContinued;
  const std::string header(reinterpret_cast<const char*>(&request),
                           sizeof(request));
  EXPECT_THAT(ByeBehindARequest(header + TestBytes(5)),
              HasSubstr("a train ends in the middle of a frame"));
  EXPECT_THAT(ByeBehindARequest(header + TestBytes(10)),
              HasSubstr("continued frame that has no beginning or is "
                        "complete"));
  // The first frame must be whole, too, if others are behind it.
  RequestHeader first = Request(0, 8);
  first.frame.flags = kFlagContinued;
  EXPECT_THAT(
      ByeTo({TrainText({FrameText(first, TestBytes(8)), FrameText(Second())})},
            Trains()),
      HasSubstr("continued frame that has no beginning or is "
                "complete"));
}

TEST_F(HostileClientTrainsTest, MustNotSayLengthsThatWrapAround) {
  for (const uint32_t bytes : {UINT32_MAX, UINT32_MAX - 63, UINT32_MAX - 7}) {
    RequestHeader request = Second();
    request.message_bytes = request.frame.body_bytes = bytes;
    EXPECT_THAT(ByeToFrame(request), HasSubstr("in the middle of a frame"));
    // A SEND whose first frame claims more than all of it is no train.
    request.frame.credit_limit = kCredits + 1;
    const std::string first(reinterpret_cast<const char*>(&request),
                            sizeof(request));
    EXPECT_THAT(ByeTo({TrainText({first, FrameText(Second())})}, Trains()),
                HasSubstr("length is not header_bytes + body_bytes"));
  }
}

TEST_F(HostileClientTrainsTest, MustNotSayHeadersOfOtherLengths) {
  for (const int bytes : {0, 8, 15, 16, 32, 65, 65535}) {
    RequestHeader request = Second();
    request.frame.header_bytes = static_cast<uint16_t>(bytes);
    const std::string bye = ByeToFrame(request);
    const bool found = 16 <= bytes && bytes <= 64;
    EXPECT_THAT(bye,
                HasSubstr(found ? "header_bytes does not match the frame type"
                                : "in the middle of a frame"))
        << bytes;
  }
}

TEST_F(HostileClientTrainsTest, MustNotUseASlotTwice) {
  for (const uint32_t call_id : {0u, 0x10000u}) {
    EXPECT_THAT(ByeBehindARequest(FrameText(Behind(Request(call_id)))),
                HasSubstr("slot that is in use"));
  }
}

TEST_F(HostileClientTrainsTest, IsToldOfTheFirstFrameThatIsWrong) {
  RequestHeader metadata = Second(10);
  metadata.metadata_bytes = 11;
  EXPECT_THAT(ByeTo({TrainText({FrameText(Request(0)),
                                FrameText(metadata, TestBytes(10)), "x"})},
                    Trains()),
              HasSubstr("parts do not fill the body"));
}

TEST_F(HostileClientTrainsTest, MustNotSendATrainBeforeItsHello) {
  RawPeer& raw = Raw();
  const absl::StatusOr<CmEvent> event =
      raw.Connect(EncodeConnectRequest(raw.Request()));
  ASSERT_TRUE(event.ok()) << event.status();
  ASSERT_TRUE(raw.Send(TrainText({FrameText(raw.InlineRequest(0, kEcho, 0)),
                                  FrameText(Second())}))
                  .ok());
  EXPECT_THAT(raw.AwaitBye(), HasSubstr("broke the protocol"));
}

// frame.h asks the sender for zeros. The receiver does not look at them.
TEST_F(HostileClientTrainsTest, MayPadWithAnything) {
  RawPeer& raw = Opened({}, Trains());
  std::vector<std::string> frames;
  for (uint32_t i = 0; i < 3; ++i) {
    RequestHeader request = raw.InlineRequest(i, kEcho, 10 + 2 * i);
    if (i > 0) request = Behind(request);
    frames.push_back(FrameText(request, TestBytes(10 + 2 * i)));
  }
  ASSERT_TRUE(raw.Send(TrainText(frames, '\xff')).ok());
  const absl::StatusOr<std::string> answer = raw.Receive(FrameType::kResponse);
  ASSERT_TRUE(answer.ok()) << answer.status();
  const std::vector<std::string> answers = FramesOf(*answer);
  ASSERT_EQ(answers.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(answers[i].substr(sizeof(ResponseHeader)), TestBytes(10 + 2 * i));
  }
}

}  // namespace
}  // namespace verbena::transport
