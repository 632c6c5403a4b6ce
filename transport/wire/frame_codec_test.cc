#include "transport/wire/frame_codec.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "transport/wire/frame.h"
#include "transport/wire/sample_frames.h"

namespace verbena::transport {
namespace {

template <typename Header>
std::string Hex(const Header& header) {
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(&header), sizeof(header)));
}

// The bytes of the headers. A change here is a change of the protocol: raise
// ProtocolVersions.
TEST(FrameCodecTest, KeepsTheBytesOfTheCommonHeader) {
  EXPECT_EQ(Hex(FrameHeader{.type = FrameType::kResponse,
                            .flags = 0x05,
                            .header_bytes = 0x1110,
                            .credit_limit = 0x23222120,
                            .call_id = 0x33323130,
                            .body_bytes = 0x43424140}),
            "04051011202122233031323340414243");
}

TEST(FrameCodecTest, KeepsTheBytesOfTheRequestHeader) {
  EXPECT_EQ(Hex(RequestHeader{.frame = PlainHeader(FrameType::kRequest),
                              .method_id = 0x1716151413121110,
                              .timeout_us = 0x2726252423222120,
                              .message_bytes = 0x33323130,
                              .message_offset = 0x43424140,
                              .attachment_bytes = 0x53525150,
                              .attachment_offset = 0x63626160,
                              .reply_offset = 0x73727170,
                              .reply_bytes = 0x83828180,
                              .metadata_bytes = 0x9190,
                              .message_arena = 0xa1a0,
                              .attachment_arena = 0xb1b0,
                              .reply_arena = 0xc1c0}),
            "03004000070000000000000000000000"
            "10111213141516172021222324252627"
            "30313233404142435051525360616263"
            "70717273808182839091a0a1b0b1c0c1");
}

TEST(FrameCodecTest, KeepsTheBytesOfTheResponseHeader) {
  EXPECT_EQ(Hex(ResponseHeader{.frame = PlainHeader(FrameType::kResponse),
                               .code = 0x13121110,
                               .status_message_bytes = 0x2120,
                               .metadata_bytes = 0x3130,
                               .message_bytes = 0x43424140,
                               .attachment_bytes = 0x53525150}),
            "04002000070000000000000000000000"
            "10111213202130314041424350515253");
}

TEST(FrameCodecTest, KeepsTheBytesOfTheResponsePendingHeader) {
  EXPECT_EQ(Hex(ResponsePendingHeader{
                .frame = PlainHeader(FrameType::kResponsePending),
                .message_bytes = 0x13121110,
                .attachment_bytes = 0x23222120}),
            "05001800070000000000000000000000"
            "1011121320212223");
}

TEST(FrameCodecTest, KeepsTheBytesOfTheLeaseHeader) {
  EXPECT_EQ(Hex(LeaseHeader{.frame = PlainHeader(FrameType::kLease),
                            .offset = 0x13121110,
                            .bytes = 0x23222120,
                            .arena = 0x3130,
                            .zero = 0,
                            .rkey = 0x43424140}),
            "06002000070000000000000000000000"
            "10111213202122233031000040414243");
}

TEST(FrameCodecTest, KeepsTheBytesOfTheArenaHeader) {
  EXPECT_EQ(Hex(ArenaHeader{.frame = PlainHeader(FrameType::kArena),
                            .address = 0x1716151413121110,
                            .bytes = 0x2726252423222120,
                            .rkey = 0x33323130,
                            .index = 0x4140,
                            .zero = 0}),
            "08002800070000000000000000000000"
            "10111213141516172021222324252627"
            "3031323340410000");
}

TEST(FrameCodecTest, KeepsTheBytesOfTheReturnHeader) {
  EXPECT_EQ(Hex(ReturnHeader{.frame = {}, .credits = 0x13121110, .zero = 0})
                .substr(32),
            "1011121300000000");
}

TEST(FrameCodecTest, KeepsTheBytesOfTheHeadersOfStreams) {
  EXPECT_EQ(Hex(WindowHeader{.frame = {},
                             .limit = 0x1716151413121110,
                             .message_limit = 0x2726252423222120})
                .substr(32),
            "10111213141516172021222324252627");
  EXPECT_EQ(Hex(LongMessageHeader{.frame = {},
                                  .message_bytes = 0x13121110,
                                  .message_offset = 0x23222120,
                                  .attachment_bytes = 0x33323130,
                                  .attachment_offset = 0x43424140,
                                  .message_arena = 0x5150,
                                  .attachment_arena = 0x6160,
                                  .zero = 0x73727170})
                .substr(32),
            "101112132021222330313233404142435051606170717273");
  EXPECT_EQ(Hex(MessageHeader{.message_bytes = 0x13121110,
                              .attachment_bytes = 0x23222120}),
            "1011121320212223");
}

TEST(FrameCodecTest, KnowsTheHeaderAndTheNameOfEveryType) {
  const struct {
    FrameType type;
    uint16_t header_bytes;
    const char* name;
  } kTypes[] = {
      {FrameType::kHello, 16, "HELLO"},
      {FrameType::kWelcome, 16, "WELCOME"},
      {FrameType::kRequest, 64, "REQUEST"},
      {FrameType::kResponse, 32, "RESPONSE"},
      {FrameType::kResponsePending, 24, "RESPONSE_PENDING"},
      {FrameType::kLease, 32, "LEASE"},
      {FrameType::kCancel, 16, "CANCEL"},
      {FrameType::kArena, 40, "ARENA"},
      {FrameType::kGrant, 16, "GRANT"},
      {FrameType::kPing, 16, "PING"},
      {FrameType::kPong, 16, "PONG"},
      {FrameType::kGoAway, 16, "GOAWAY"},
      {FrameType::kBye, 16, "BYE"},
      {FrameType::kReturn, 24, "RETURN"},
      {FrameType::kContinuation, 16, "CONTINUATION"},
      {FrameType::kCredentials, 16, "CREDENTIALS"},
      {FrameType::kData, 16, "DATA"},
      {FrameType::kWindow, 32, "WINDOW"},
      {FrameType::kMetadata, 16, "METADATA"},
      {FrameType::kMessage, 40, "MESSAGE"},
  };
  uint8_t number = kFirstFrameType;
  for (const auto& expected : kTypes) {
    EXPECT_EQ(static_cast<uint8_t>(expected.type), number++);
    EXPECT_EQ(HeaderBytes(expected.type), expected.header_bytes);
    EXPECT_STREQ(FrameTypeName(expected.type), expected.name);
  }
  EXPECT_EQ(number, kLastFrameType + 1);
  EXPECT_STREQ(FrameTypeName(FrameType{0}), "UNKNOWN");
  EXPECT_STREQ(FrameTypeName(FrameType{255}), "UNKNOWN");
}

TEST(FrameCodecTest, SplitsTheBodyOfARequest) {
  std::vector<uint8_t> frame = Frame(InlineRequest(), 18);
  const RequestBody body = SplitRequest(frame);
  EXPECT_EQ(body.metadata.data(), frame.data() + 64);
  EXPECT_EQ(body.metadata.size(), 3u);
  EXPECT_EQ(body.message.data(), frame.data() + 67);
  EXPECT_EQ(body.message.size(), 10u);
  EXPECT_EQ(body.attachment.data(), frame.data() + 77);
  EXPECT_EQ(body.attachment.size(), 5u);

  EXPECT_EQ(body.lease_rkey, 0u);

  frame = Frame(ArenaRequest(), 3);
  const RequestBody rest = SplitRequest(frame);
  EXPECT_EQ(rest.metadata.size(), 3u);
  EXPECT_TRUE(rest.message.empty());
  EXPECT_TRUE(rest.attachment.empty());
}

TEST(FrameCodecTest, SplitsTheBodyOfAResponse) {
  std::vector<uint8_t> frame = Frame(InlineResponse(), 22);
  const ResponseBody body = SplitResponse(frame);
  EXPECT_EQ(body.status_message.data(), frame.data() + 32);
  EXPECT_EQ(body.status_message.size(), 4u);
  EXPECT_EQ(body.metadata.data(), frame.data() + 36);
  EXPECT_EQ(body.metadata.size(), 3u);
  EXPECT_EQ(body.message.data(), frame.data() + 39);
  EXPECT_EQ(body.message.size(), 10u);
  EXPECT_EQ(body.attachment.data(), frame.data() + 49);
  EXPECT_EQ(body.attachment.size(), 5u);

  ResponseHeader in_arena = InlineResponse();
  in_arena.frame.flags = kFlagMessageInArena;
  in_arena.frame.body_bytes -= 10;
  frame = Frame(in_arena, 12);
  ASSERT_EQ(FrameError(frame), nullptr);
  const ResponseBody rest = SplitResponse(frame);
  EXPECT_TRUE(rest.message.empty());
  EXPECT_EQ(rest.attachment.data(), frame.data() + 39);
}

TEST(FrameCodecTest, LoadsHeadersFromUnalignedMemory) {
  std::vector<uint8_t> frame = Frame(ArenaRequest(), 3);
  frame.insert(frame.begin(), 0xcd);
  const absl::Span<const uint8_t> unaligned =
      absl::MakeConstSpan(frame).subspan(1);
  EXPECT_EQ(FrameError(unaligned), nullptr);
  EXPECT_EQ(LoadHeader<RequestHeader>(unaligned).reply_bytes, 65536u);
  EXPECT_EQ(LoadHeader<FrameHeader>(unaligned).body_bytes, 3u);
  EXPECT_EQ(FrameBody(unaligned).size(), 3u);
}

TEST(FrameCodecTest, AsksCreditOfWhatTheProtocolSays) {
  EXPECT_TRUE(NeedsCredit(FrameType::kHello, 0));
  EXPECT_TRUE(NeedsCredit(FrameType::kArena, 0));
  EXPECT_FALSE(NeedsCredit(FrameType::kGrant, 0));
  EXPECT_TRUE(NeedsCredit(FrameType::kBye, 0));
  EXPECT_TRUE(NeedsCredit(FrameType::kBye, kFlagUnauthenticated));
  EXPECT_FALSE(NeedsCredit(FrameType::kBye, kFlagDamaged | kFlagGrantRead));
  EXPECT_TRUE(NeedsCredit(FrameType::kRequest, kFlagReplyLease));
  EXPECT_TRUE(NeedsCredit(FrameType::kReturn, 0));
  EXPECT_TRUE(NeedsCredit(FrameType::kContinuation, 0));
  EXPECT_TRUE(NeedsCredit(FrameType::kData, kFlagLastData));
  EXPECT_TRUE(NeedsCredit(FrameType::kWindow, 0));
  EXPECT_TRUE(NeedsCredit(FrameType::kMetadata, kFlagMetadataEnd));
}

// --- Trains ------------------------------------------------------------------

std::string TrainVerdict(const std::vector<uint8_t>& frame) {
  const char* const error = TrainFrameError(frame, IsPlainCall(frame));
  return error == nullptr ? "fine" : error;
}

// Returns `header` as a frame behind the first one has it: it says nothing of
// credits, unless `flags` do.
template <typename Header>
Header Behind(Header header, uint8_t flags = 0) {
  header.frame.credit_limit = 0;
  header.frame.flags |= flags;
  return header;
}

RequestHeader PlainRequest() {
  RequestHeader request = {};
  request.frame = PlainHeader(FrameType::kRequest);
  request.frame.body_bytes = request.message_bytes = 10;
  return request;
}

TEST(TrainTest, MeasuresTheFirstFrameByItsHeader) {
  std::vector<uint8_t> train = Frame(InlineRequest(), 18);
  EXPECT_EQ(FirstFrameBytes(train), 64u + 18);
  train.resize(500);
  EXPECT_EQ(FirstFrameBytes(train), 64u + 18);
  // The function reads the common header and nothing else.
  train.resize(sizeof(FrameHeader));
  train.shrink_to_fit();
  EXPECT_EQ(FirstFrameBytes(train), 64u + 18);
  train.resize(sizeof(FrameHeader) - 1);
  train.shrink_to_fit();
  EXPECT_EQ(FirstFrameBytes(train), sizeof(FrameHeader) - 1);
  EXPECT_EQ(FirstFrameBytes({}), 0u);
}

TEST(TrainTest, TheLengthOfAFrameDoesNotWrapAround) {
  RequestHeader request = PlainRequest();
  request.frame.body_bytes = UINT32_MAX;
  EXPECT_EQ(FirstFrameBytes(Frame(request, 10)), 64 + uint64_t{UINT32_MAX});
}

TEST(TrainTest, AcceptsEveryWholeCall) {
  EXPECT_EQ(TrainVerdict(Frame(Behind(PlainRequest()), 10)), "fine");
  EXPECT_EQ(TrainVerdict(Frame(Behind(InlineRequest()), 18)), "fine");
  EXPECT_EQ(TrainVerdict(Frame(Behind(ArenaRequest()), 3)), "fine");
  EXPECT_EQ(TrainVerdict(Frame(Behind(StreamRequest()), 3)), "fine");
  EXPECT_EQ(TrainVerdict(Frame(Behind(InlineResponse()), 22)), "fine");
}

TEST(TrainTest, RefusesWhatIsWrongWithAnyFrame) {
  EXPECT_EQ(TrainVerdict({}), "shorter than a header");
  EXPECT_EQ(TrainVerdict(Frame(Behind(InlineRequest()), 17)),
            "length is not header_bytes + body_bytes");
  ResponseHeader response = Behind(InlineResponse());
  response.code = 17;
  EXPECT_EQ(TrainVerdict(Frame(response, 22)), "unknown status code");
}

TEST(TrainTest, RefusesFramesThatAreNoCalls) {
  for (int type = kFirstFrameType; type <= kLastFrameType; ++type) {
    FrameHeader header = PlainHeader(static_cast<FrameType>(type));
    header.credit_limit = 0;
    if (header.type == FrameType::kRequest ||
        header.type == FrameType::kResponse) {
      continue;
    }
    std::vector<uint8_t> frame(header.header_bytes, 0);
    std::memcpy(frame.data(), &header, sizeof(header));
    EXPECT_NE(TrainVerdict(frame), "fine") << type;
  }
  for (const FrameType type :
       {FrameType::kPing, FrameType::kGrant, FrameType::kBye}) {
    EXPECT_EQ(TrainVerdict(Frame(PlainHeader(type), 0)),
              "a train has a frame that is neither REQUEST nor RESPONSE");
  }
}

TEST(TrainTest, RefusesFramesThatAreContinued) {
  EXPECT_EQ(TrainVerdict(Frame(Behind(InlineRequest(), kFlagContinued), 17)),
            "a train has a frame that is continued");
  EXPECT_EQ(TrainVerdict(Frame(Behind(InlineResponse(), kFlagContinued), 1)),
            "a train has a frame that is continued");
}

TEST(TrainTest, OnlyTheFirstFrameSpeaksOfCredits) {
  const std::string kVerdict =
      "a frame of a train other than the first has credit fields";
  for (const uint8_t flag : {kFlagCreditsWanted, kFlagGrantRead, kFlowFlags}) {
    EXPECT_EQ(TrainVerdict(Frame(Behind(PlainRequest(), flag), 10)), kVerdict);
    EXPECT_EQ(TrainVerdict(Frame(Behind(InlineResponse(), flag), 22)),
              kVerdict);
  }
  EXPECT_EQ(TrainVerdict(Frame(PlainRequest(), 10)), kVerdict);
  EXPECT_EQ(TrainVerdict(Frame(InlineResponse(), 22)), kVerdict);
}

}  // namespace
}  // namespace verbena::transport
