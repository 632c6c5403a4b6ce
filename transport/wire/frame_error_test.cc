// FrameError(), one rule after the other.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "transport/base/limits.h"
#include "transport/wire/frame.h"
#include "transport/wire/frame_codec.h"
#include "transport/wire/sample_frames.h"

namespace verbena::transport {
namespace {

std::string Verdict(const std::vector<uint8_t>& frame) {
  const char* const error = FrameError(frame);
  return error == nullptr ? "fine" : error;
}

// Returns the verdict on `header` with a body of the length that it claims.
template <typename Header>
std::string Verdict(const Header& header) {
  FrameHeader common;
  std::memcpy(&common, &header, sizeof(common));
  return Verdict(Frame(header, common.body_bytes));
}

TEST(FrameErrorTest, AcceptsEveryTypeOfFrame) {
  EXPECT_EQ(Verdict(InlineRequest()), "fine");
  EXPECT_EQ(Verdict(ArenaRequest()), "fine");
  EXPECT_EQ(Verdict(InlineResponse()), "fine");
  EXPECT_EQ(Verdict(Pending()), "fine");
  EXPECT_EQ(Verdict(Lease()), "fine");
  EXPECT_EQ(Verdict(Arena()), "fine");
  EXPECT_EQ(Verdict(WithdrawnArena()), "fine");
  EXPECT_EQ(Verdict(Return()), "fine");
  EXPECT_EQ(Verdict(StreamRequest()), "fine");
  EXPECT_EQ(Verdict(Data()), "fine");
  EXPECT_EQ(Verdict(Window()), "fine");
  EXPECT_EQ(Verdict(ArenaMessage()), "fine");
  for (const FrameType type :
       {FrameType::kHello, FrameType::kWelcome, FrameType::kCancel,
        FrameType::kGrant, FrameType::kPing, FrameType::kPong,
        FrameType::kGoAway, FrameType::kBye}) {
    EXPECT_EQ(Verdict(PlainHeader(type)), "fine") << FrameTypeName(type);
  }
}

TEST(FrameErrorTest, AcceptsEmptyCalls) {
  RequestHeader request = {};
  request.frame = PlainHeader(FrameType::kRequest);
  EXPECT_EQ(Verdict(request), "fine");
  ResponseHeader response = {};
  response.frame = PlainHeader(FrameType::kResponse);
  EXPECT_EQ(Verdict(response), "fine");
}

TEST(FrameErrorTest, RefusesEveryTruncation) {
  const std::vector<uint8_t> whole = Frame(InlineRequest(), 18);
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const std::vector<uint8_t> frame(whole.begin(), whole.begin() + bytes);
    EXPECT_EQ(Verdict(frame), bytes < sizeof(FrameHeader)
                                  ? "shorter than a header"
                                  : "length is not header_bytes + body_bytes");
  }
}

TEST(FrameErrorTest, RefusesOtherLengthsThanTheHeaderSays) {
  EXPECT_EQ(Verdict(Frame(InlineRequest(), 19)),
            "length is not header_bytes + body_bytes");
  // header_bytes + body_bytes is 20 modulo 2^32, so the frame is as long as it
  // seems to claim, but its header is not inside.
  RequestHeader request = InlineRequest();
  request.frame.body_bytes = UINT32_MAX - 43;
  std::vector<uint8_t> frame = Frame(request, 0);
  frame.resize(20);
  frame.shrink_to_fit();
  EXPECT_EQ(Verdict(frame), "length is not header_bytes + body_bytes");
}

TEST(FrameErrorTest, RefusesUnknownTypes) {
  for (int type = 0; type < 256; ++type) {
    FrameHeader header = PlainHeader(FrameType::kPing);
    header.type = static_cast<FrameType>(type);
    const bool known = kFirstFrameType <= type && type <= kLastFrameType;
    EXPECT_EQ(Verdict(header) == "unknown frame type", !known) << type;
  }
}

TEST(FrameErrorTest, RefusesTheHeaderOfAnotherType) {
  for (int type = kFirstFrameType; type <= kLastFrameType; ++type) {
    FrameHeader header = PlainHeader(static_cast<FrameType>(type));
    // The frame is long enough, so that only this rule is broken.
    for (const int wrong : {0, 15, 17, header.header_bytes + 8, 65535}) {
      header.header_bytes = static_cast<uint16_t>(wrong);
      header.body_bytes = 100;
      EXPECT_EQ(Verdict(Frame(header, 100)),
                "header_bytes does not match the frame type")
          << type;
    }
  }
}

TEST(FrameErrorTest, AcceptsWhatEveryTypeMaySayOfCredits) {
  for (const uint8_t flag : {kFlagCreditsWanted, kFlagGrantRead, kFlowFlags}) {
    RequestHeader request = ArenaRequest();
    request.frame.flags |= flag;
    EXPECT_EQ(Verdict(request), "fine");
    FrameHeader grant = PlainHeader(FrameType::kGrant);
    grant.flags = flag;
    EXPECT_EQ(Verdict(grant), "fine");
  }
}

TEST(FrameErrorTest, RefusesMetadataThatAreNothingAndNotTheEnd) {
  for (const uint8_t flags : {kFlagMetadataEnd, kFlagInitialMetadata}) {
    FrameHeader metadata = MetadataHeader(flags);
    EXPECT_EQ(Verdict(metadata), flags == kFlagMetadataEnd
                                     ? "fine"
                                     : "empty METADATA that are not the last");
    metadata.body_bytes = 10;
    EXPECT_EQ(Verdict(Frame(metadata, 10)), "fine");
  }
}

TEST(FrameErrorTest, RefusesAReturnOfNothing) {
  ReturnHeader header = Return();
  header.credits = 0;
  EXPECT_EQ(Verdict(header), "RETURN of nothing");
  header = Return();
  header.zero = 1;
  EXPECT_EQ(Verdict(header), "unused field is not zero");
}

TEST(FrameErrorTest, RefusesFlagsThatMeanNothing) {
  FrameHeader bye = PlainHeader(FrameType::kBye);
  for (const uint8_t flag : {kFlagUnauthenticated, kFlagDamaged}) {
    bye.flags = flag;
    EXPECT_EQ(Verdict(bye), "fine");
  }
  ResponseHeader response = InlineResponse();
  response.frame.flags = kFlagReplyLease;
  EXPECT_EQ(Verdict(response), "flag that the frame type does not have");
  for (const uint8_t flag : {1, 2, 4, 8, 16, 32}) {
    LeaseHeader lease = Lease();
    lease.frame.flags = flag;
    EXPECT_EQ(Verdict(lease), "flag that the frame type does not have");
    FrameHeader hello = PlainHeader(FrameType::kHello);
    hello.flags = flag;
    EXPECT_EQ(Verdict(hello), "flag that the frame type does not have");
  }
}

TEST(FrameErrorTest, RefusesAReplyToACallThatWasNotProcessed) {
  ResponseHeader response = {};
  response.frame = PlainHeader(FrameType::kResponse);
  response.frame.flags = kFlagUnprocessed;
  EXPECT_EQ(Verdict(response), "unprocessed call with a part of a reply");
  response.code = 14;
  EXPECT_EQ(Verdict(response), "fine");
  response.frame.body_bytes = 5;
  response.status_message_bytes = 5;
  EXPECT_EQ(Verdict(Frame(response, 5)), "fine");
  response.status_message_bytes = 0;
  ResponseHeader with_part = response;
  with_part.metadata_bytes = 5;
  EXPECT_EQ(Verdict(Frame(with_part, 5)),
            "unprocessed call with a part of a reply");
  with_part = response;
  with_part.message_bytes = 5;
  EXPECT_EQ(Verdict(Frame(with_part, 5)),
            "unprocessed call with a part of a reply");
  with_part = response;
  with_part.attachment_bytes = 5;
  EXPECT_EQ(Verdict(Frame(with_part, 5)),
            "unprocessed call with a part of a reply");
}

TEST(FrameErrorTest, RefusesAStreamWithAMessageInItsRequest) {
  const struct {
    void (*spoil)(RequestHeader&);
  } kCases[] = {
      {[](RequestHeader& r) { r.message_bytes = 1; }},
      {[](RequestHeader& r) { r.attachment_bytes = 1; }},
      {[](RequestHeader& r) {
        r.frame.flags |= kFlagReplyLease;
        r.reply_bytes = 1;
      }},
  };
  for (const auto& c : kCases) {
    RequestHeader request = StreamRequest();
    c.spoil(request);
    EXPECT_EQ(Verdict(request), "stream with a message in its REQUEST");
  }
}

TEST(FrameErrorTest, RefusesEmptyDataUnlessItIsTheLast) {
  FrameHeader data = Data();
  data.body_bytes = 0;
  EXPECT_EQ(Verdict(data), "empty DATA that is not the last");
  data.flags = kFlagLastData;
  EXPECT_EQ(Verdict(data), "fine");
  data.flags = 2;
  EXPECT_EQ(Verdict(data), "flag that the frame type does not have");
}

TEST(FrameErrorTest, AcceptsTheBeginningOfAFrameThatIsContinued) {
  RequestHeader request = InlineRequest();
  request.frame.flags = kFlagContinued;
  for (const uint32_t there : {0u, 1u, request.frame.body_bytes - 1}) {
    EXPECT_EQ(Verdict(Frame(request, there)), "fine") << there;
  }
  EXPECT_EQ(Verdict(Frame(request, request.frame.body_bytes)),
            "continued frame that has no beginning or is complete");
  FrameHeader continuation = PlainHeader(FrameType::kContinuation);
  EXPECT_EQ(Verdict(continuation), "empty continuation");
  continuation.body_bytes = 10;
  EXPECT_EQ(Verdict(Frame(continuation, 10)), "fine");
}

TEST(FrameErrorTest, BoundsWhatIsContinued) {
  ResponseHeader response = {};
  response.frame = PlainHeader(FrameType::kResponse);
  response.frame.flags = kFlagContinued;
  response.message_bytes = response.frame.body_bytes = kContinuedBytesMax;
  EXPECT_EQ(Verdict(Frame(response, 100)), "fine");
  ++response.message_bytes;
  EXPECT_EQ(Verdict(Frame(response, 100)), "parts do not fill the body");
  response.frame.body_bytes = response.message_bytes;
  EXPECT_EQ(Verdict(Frame(response, 100)), "continued frame that is too long");
}

TEST(FrameErrorTest, RefusesACallWhereNoneIsMeant) {
  for (const FrameType type :
       {FrameType::kHello, FrameType::kWelcome, FrameType::kGrant,
        FrameType::kPing, FrameType::kPong, FrameType::kGoAway,
        FrameType::kBye}) {
    FrameHeader header = PlainHeader(type);
    header.call_id = 1;
    EXPECT_EQ(Verdict(header), "call_id in a frame that belongs to no call");
  }
  ArenaHeader arena = Arena();
  arena.frame.call_id = 0x10000;
  EXPECT_EQ(Verdict(arena), "call_id in a frame that belongs to no call");
}

TEST(FrameErrorTest, RefusesABodyWhereThereIsNone) {
  for (const FrameType type :
       {FrameType::kCancel, FrameType::kGrant, FrameType::kPing,
        FrameType::kPong, FrameType::kGoAway}) {
    FrameHeader header = PlainHeader(type);
    header.body_bytes = 1;
    EXPECT_EQ(Verdict(header), "body in a frame type that has none");
  }
  ResponsePendingHeader pending = Pending();
  pending.frame.body_bytes = 1;
  EXPECT_EQ(Verdict(pending), "body in a frame type that has none");
  LeaseHeader lease = Lease();
  lease.frame.body_bytes = 1;
  EXPECT_EQ(Verdict(lease), "body in a frame type that has none");
  ArenaHeader arena = Arena();
  arena.frame.body_bytes = 1;
  EXPECT_EQ(Verdict(arena), "body in a frame type that has none");
}

TEST(FrameErrorTest, BoundsTheMetadata) {
  RequestHeader request = InlineRequest();
  request.metadata_bytes = kFrameMetadataBytes;
  request.frame.body_bytes = kFrameMetadataBytes + 15;
  EXPECT_EQ(Verdict(request), "fine");
  ++request.metadata_bytes;
  ++request.frame.body_bytes;
  EXPECT_EQ(Verdict(request), "metadata too long");

  ResponseHeader response = InlineResponse();
  response.metadata_bytes = kFrameMetadataBytes;
  response.frame.body_bytes = kFrameMetadataBytes + 19;
  EXPECT_EQ(Verdict(response), "fine");
  ++response.metadata_bytes;
  ++response.frame.body_bytes;
  EXPECT_EQ(Verdict(response), "metadata too long");
}

TEST(FrameErrorTest, BoundsTheStatus) {
  ResponseHeader response = InlineResponse();
  response.status_message_bytes = kMaxStatusMessageBytes;
  response.frame.body_bytes = kMaxStatusMessageBytes + 18;
  EXPECT_EQ(Verdict(response), "fine");
  ++response.status_message_bytes;
  ++response.frame.body_bytes;
  EXPECT_EQ(Verdict(response), "status message too long");

  response = InlineResponse();
  response.code = 16;
  EXPECT_EQ(Verdict(response), "fine");
  response.code = 17;
  EXPECT_EQ(Verdict(response), "unknown status code");
  response.code = UINT32_MAX;
  EXPECT_EQ(Verdict(response), "unknown status code");
}

TEST(FrameErrorTest, RefusesPlacesThatNoFlagAnnounces) {
  const struct {
    void (*spoil)(RequestHeader&);
    const char* verdict;
  } kCases[] = {
      {[](RequestHeader& r) { r.message_offset = 1; },
       "arena address for an inline message"},
      {[](RequestHeader& r) { r.message_arena = 1; },
       "arena address for an inline message"},
      {[](RequestHeader& r) { r.attachment_offset = 1; },
       "arena address for an inline attachment"},
      {[](RequestHeader& r) { r.attachment_arena = 1; },
       "arena address for an inline attachment"},
      {[](RequestHeader& r) { r.reply_offset = 1; },
       "reply lease without its flag"},
      {[](RequestHeader& r) { r.reply_bytes = 1; },
       "reply lease without its flag"},
      {[](RequestHeader& r) { r.reply_arena = 1; },
       "reply lease without its flag"},
  };
  for (const auto& c : kCases) {
    RequestHeader request = InlineRequest();
    c.spoil(request);
    EXPECT_EQ(Verdict(request), c.verdict);
  }
}

TEST(FrameErrorTest, RefusesEmptyRangesOfArenas) {
  RequestHeader request = ArenaRequest();
  request.message_bytes = 0;
  EXPECT_EQ(Verdict(request), "empty message in an arena");
  request = ArenaRequest();
  request.attachment_bytes = 0;
  EXPECT_EQ(Verdict(request), "empty attachment in an arena");
  request = ArenaRequest();
  request.reply_bytes = 0;
  EXPECT_EQ(Verdict(request), "empty reply lease");

  ResponseHeader response = InlineResponse();
  response.frame.flags = kFlagMessageInArena;
  response.message_bytes = 0;
  response.frame.body_bytes -= 10;
  EXPECT_EQ(Verdict(response), "empty message in an arena");
  response = InlineResponse();
  response.frame.flags = kFlagAttachmentInArena;
  response.attachment_bytes = 0;
  response.frame.body_bytes -= 5;
  EXPECT_EQ(Verdict(response), "empty attachment in an arena");

  LongMessageHeader message = ArenaMessage();
  message.attachment_bytes = 0;
  EXPECT_EQ(Verdict(message), "empty attachment in an arena");
  ResponsePendingHeader pending = Pending();
  pending.message_bytes = 0;
  EXPECT_EQ(Verdict(pending), "pending response that needs no lease");
  pending.attachment_bytes = 1;
  EXPECT_EQ(Verdict(pending), "fine");
}

TEST(FrameErrorTest, RefusesAKeyOfALeaseThatIsNone) {
  const auto verdict = [](RequestHeader request, uint32_t rkey, uint32_t zero) {
    std::vector<uint8_t> frame = Frame(request, request.frame.body_bytes);
    const LeaseKey key = {rkey, zero};
    std::memcpy(frame.data() + sizeof(request), &key,
                std::min(sizeof(key), frame.size() - sizeof(request)));
    return Verdict(frame);
  };
  EXPECT_EQ(verdict(KeyedRequest(), 7, 0), "fine");
  EXPECT_EQ(verdict(KeyedRequest(), 0, 0), "key of a lease that is zero");
  EXPECT_EQ(verdict(KeyedRequest(), 7, 1), "unused field is not zero");
  RequestHeader request = KeyedRequest();
  request.frame.body_bytes = sizeof(LeaseKey) - 1;
  EXPECT_EQ(verdict(request, 7, 0), "no room for the key of a lease");
  request = KeyedRequest();
  --request.frame.body_bytes;
  EXPECT_EQ(verdict(request, 7, 0), "parts do not fill the body");
  request = InlineRequest();
  request.frame.flags = kFlagLeaseKey;
  EXPECT_EQ(verdict(request, 7, 0), "key of a lease without a lease");
}

TEST(FrameErrorTest, RefusesPartsThatDoNotFillTheBody) {
  const struct {
    void (*spoil)(RequestHeader&);
  } kRequests[] = {
      {[](RequestHeader& r) { ++r.metadata_bytes; }},
      {[](RequestHeader& r) { --r.message_bytes; }},
      {[](RequestHeader& r) { ++r.attachment_bytes; }},
      // The sum is right modulo 2^32.
      {[](RequestHeader& r) {
        r.message_bytes = 0xffff0000;
        r.attachment_bytes = 0x10000 + 15;
      }},
      {[](RequestHeader& r) { r.frame.flags = kFlagMessageInArena; }},
      {[](RequestHeader& r) { r.frame.flags = kFlagAttachmentInArena; }},
  };
  for (const auto& c : kRequests) {
    RequestHeader request = InlineRequest();
    c.spoil(request);
    EXPECT_EQ(Verdict(request), "parts do not fill the body");
  }
  const struct {
    void (*spoil)(ResponseHeader&);
  } kResponses[] = {
      {[](ResponseHeader& r) { ++r.status_message_bytes; }},
      {[](ResponseHeader& r) { --r.metadata_bytes; }},
      {[](ResponseHeader& r) { ++r.message_bytes; }},
      {[](ResponseHeader& r) { --r.attachment_bytes; }},
      {[](ResponseHeader& r) {
        r.message_bytes = 0xffff0000;
        r.attachment_bytes = 0x10000 + 15;
      }},
      {[](ResponseHeader& r) { r.frame.flags = kFlagMessageInArena; }},
  };
  for (const auto& c : kResponses) {
    ResponseHeader response = InlineResponse();
    c.spoil(response);
    EXPECT_EQ(Verdict(response), "parts do not fill the body");
  }
}

TEST(FrameErrorTest, RefusesMessagesWithoutAPlace) {
  LongMessageHeader message = ArenaMessage();
  message.frame.flags = 0;
  EXPECT_EQ(Verdict(message), "MESSAGE with nothing in an arena");
  message = ArenaMessage();
  message.message_offset = 64;
  EXPECT_EQ(Verdict(message), "arena address for an inline message");
  message = ArenaMessage();
  ++message.message_bytes;
  EXPECT_EQ(Verdict(message), "parts do not fill the body");
  message = ArenaMessage();
  message.zero = 1;
  EXPECT_EQ(Verdict(message), "unused field is not zero");
}

TEST(FrameErrorTest, RefusesUnusedFieldsThatAreNotZero) {
  LeaseHeader lease = Lease();
  lease.zero = 1;
  EXPECT_EQ(Verdict(lease), "unused field is not zero");
  for (ArenaHeader arena : {Arena(), WithdrawnArena()}) {
    arena.zero = 1;
    EXPECT_EQ(Verdict(arena), "unused field is not zero");
  }
  for (const uint64_t address : {0, 1}) {
    ArenaHeader arena = WithdrawnArena();
    arena.address = address;
    arena.rkey = address == 0 ? 1 : 0;
    EXPECT_EQ(Verdict(arena), "withdrawn arena with an address");
  }
}

}  // namespace
}  // namespace verbena::transport
