#include "transport/soft/iwarp/ddp.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace verbena::soft {
namespace {

const std::byte* Bytes(const std::string& text) {
  return reinterpret_cast<const std::byte*>(text.data());
}

std::string Hex(const std::byte* bytes, size_t count) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes), count});
}

std::string Encoded(const DdpSegment& segment) {
  std::byte bytes[kSegmentHeaderBytesMax];
  return Hex(bytes, EncodeSegment(segment, bytes));
}

template <typename Body>
std::string EncodedBody(const Body& body) {
  std::byte bytes[Body::kBytes];
  body.Encode(bytes);
  return Hex(bytes, sizeof(bytes));
}

// Parses bytes that are written in hexadecimal digits; returns what is wrong.
std::string Wrong(absl::string_view hex, DdpSegment* parsed = nullptr) {
  const std::string bytes = absl::HexStringToBytes(hex);
  DdpSegment segment;
  const char* const wrong = ParseSegment(Bytes(bytes), bytes.size(), segment);
  if (parsed != nullptr) *parsed = segment;
  return wrong == nullptr ? "" : wrong;
}

TEST(DdpTest, KeepsTheBytesOfAnUntaggedSegment) {
  EXPECT_EQ(Encoded({.opcode = RdmapOpcode::kSendInvalidate,
                     .last = true,
                     .stag = 0x01020304,
                     .offset = 0x21222324,
                     .queue = 0,
                     .sequence = 0x11121314,
                     .payload_bytes = 5}),
            "0017"      // 18 + 5
            "4144"      // L, DDP 1; RDMAP 1, opcode 4
            "01020304"  // The key to be invalidated.
            "00000000"  // QN
            "11121314"  // MSN
            "21222324"  // MO
  );
}

TEST(DdpTest, KeepsTheBytesOfATaggedSegment) {
  EXPECT_EQ(Encoded({.opcode = RdmapOpcode::kReadResponse,
                     .tagged = true,
                     .stag = 0x01020304,
                     .offset = 0x1112131415161718,
                     .payload_bytes = 0x4000}),
            "400e"              // 14 + 16384
            "8142"              // T, DDP 1; RDMAP 1, opcode 2
            "01020304"          // STag
            "1112131415161718"  // TO
  );
}

TEST(DdpTest, KeepsTheControlFieldOfEachOpcode) {
  const auto control = [](RdmapOpcode opcode, bool tagged, uint32_t queue) {
    const std::string hex = Encoded(
        {.opcode = opcode, .tagged = tagged, .last = true, .queue = queue});
    EXPECT_EQ(Wrong(hex), "") << hex;
    return hex.substr(4, 4);
  };
  EXPECT_EQ(control(RdmapOpcode::kWrite, true, 0), "c140");
  EXPECT_EQ(control(RdmapOpcode::kReadRequest, false, 1), "4141");
  EXPECT_EQ(control(RdmapOpcode::kReadResponse, true, 0), "c142");
  EXPECT_EQ(control(RdmapOpcode::kSend, false, 0), "4143");
  EXPECT_EQ(control(RdmapOpcode::kSendInvalidate, false, 0), "4144");
  EXPECT_EQ(control(RdmapOpcode::kSendSolicited, false, 0), "4145");
  EXPECT_EQ(control(RdmapOpcode::kSendSolicitedInvalidate, false, 0), "4146");
  EXPECT_EQ(control(RdmapOpcode::kTerminate, false, 2), "4147");
  EXPECT_EQ(control(RdmapOpcode::kImmediate, false, 0), "4148");
  EXPECT_EQ(control(RdmapOpcode::kImmediateSolicited, false, 0), "4149");
  EXPECT_EQ(control(RdmapOpcode::kAtomicRequest, false, 1), "414a");
  EXPECT_EQ(control(RdmapOpcode::kAtomicResponse, false, 3), "414b");
  EXPECT_EQ(control(RdmapOpcode::kExtended, false, 4), "414f");
}

TEST(DdpTest, TheReservedBitsAreOurs) {
  EXPECT_EQ(Encoded({.immediate_follows = true}).substr(4, 4), "0163");
  EXPECT_EQ(Encoded({.unhurried = true}).substr(4, 4), "0153");
  DdpSegment segment;
  EXPECT_EQ(Wrong("0012"
                  "3d73"
                  "00000000"
                  "00000000"
                  "00000001"
                  "00000000",
                  &segment),
            "")
      << "the reserved bits of DDP are not looked at";
  EXPECT_TRUE(segment.immediate_follows);
  EXPECT_TRUE(segment.unhurried);
}

TEST(DdpTest, ReadsWhatItHasWritten) {
  DdpSegment segment;
  EXPECT_EQ(Wrong("0017"
                  "4146"
                  "01020304"
                  "00000000"
                  "11121314"
                  "21222324",
                  &segment),
            "");
  EXPECT_EQ(segment.opcode, RdmapOpcode::kSendSolicitedInvalidate);
  EXPECT_FALSE(segment.tagged);
  EXPECT_TRUE(segment.last);
  EXPECT_EQ(segment.stag, 0x01020304u);
  EXPECT_EQ(segment.queue, kSendQueue);
  EXPECT_EQ(segment.sequence, 0x11121314u);
  EXPECT_EQ(segment.offset, 0x21222324u);
  EXPECT_EQ(segment.payload_bytes, 5u);
  EXPECT_EQ(Wrong("ffff"
                  "8140"
                  "01020304"
                  "1112131415161718",
                  &segment),
            "");
  EXPECT_EQ(segment.opcode, RdmapOpcode::kWrite);
  EXPECT_TRUE(segment.tagged);
  EXPECT_FALSE(segment.last);
  EXPECT_EQ(segment.stag, 0x01020304u);
  EXPECT_EQ(segment.offset, 0x1112131415161718u);
  EXPECT_EQ(segment.payload_bytes, 0xffffu - 14);
}

TEST(DdpTest, WaitsForAHeaderThatHasNotComeWhole) {
  const std::string untagged =
      "00174144"
      "01020304"
      "00000000"
      "11121314"
      "21222324";
  for (size_t length = 0; length < untagged.size(); length += 2) {
    EXPECT_EQ(Wrong(untagged.substr(0, length)), kTooFewBytes) << length;
  }
  EXPECT_EQ(Wrong("400e8142010203041112131415161718"), "");
  EXPECT_EQ(Wrong("400e81420102030411121314151617"), kTooFewBytes);
}

TEST(DdpTest, RefusesWhatNoCorrectPeerSays) {
  const std::string rest =
      "00000000"
      "00000000"
      "00000001"
      "00000000";
  EXPECT_EQ(Wrong("00124143" + rest), "");
  EXPECT_EQ(Wrong("00124043" + rest),
            "a DDP segment of another version than 1");
  EXPECT_EQ(Wrong("00124103" + rest),
            "an RDMAP message of another version than 1");
  EXPECT_EQ(Wrong("0012414c" + rest),
            "an RDMAP opcode that nobody has defined");
  EXPECT_EQ(Wrong("0012c143" + rest),
            "an RDMAP opcode in a DDP segment of the other kind");
  EXPECT_EQ(Wrong("00124140" + rest),
            "an RDMAP opcode in a DDP segment of the other kind");
  EXPECT_EQ(Wrong("00114143" + rest),
            "an FPDU that is shorter than its header");
  EXPECT_EQ(Wrong("000dc140" + rest),
            "an FPDU that is shorter than its header");
  EXPECT_EQ(Wrong("00124141" + rest),
            "an RDMAP message on the wrong untagged queue");
}

TEST(DdpTest, PadsToFourBytes) {
  EXPECT_EQ(FpduBytes(18), 24u);
  EXPECT_EQ(FpduBytes(19), 28u);
  EXPECT_EQ(FpduBytes(22), 28u);
  EXPECT_EQ(kFpduBytesMax, 65544u);
}

TEST(DdpTest, TheCrcIsThatOfIscsi) {
  EXPECT_EQ(MpaCrc(Bytes("123456789"), 9), 0xe3069283u);
  EXPECT_EQ(MpaCrc(Bytes(std::string(32, '\0')), 32), 0x8a9136aau);
  EXPECT_EQ(MpaCrc(Bytes("6789"), 4, MpaCrc(Bytes("12345"), 5)), 0xe3069283u);
}

TEST(DdpTest, KeepsTheBytesOfAReadRequest) {
  const ReadRequestBody body = {.sink_stag = 0x01020304,
                                .sink_offset = 0x1112131415161718,
                                .length = 0x21222324,
                                .source_stag = 0x31323334,
                                .source_offset = 0x4142434445464748};
  const std::string hex =
      "01020304"
      "1112131415161718"
      "21222324"
      "31323334"
      "4142434445464748";
  EXPECT_EQ(EncodedBody(body), hex);
  const std::string bytes = absl::HexStringToBytes(hex);
  EXPECT_EQ(EncodedBody(ReadRequestBody::Parse(Bytes(bytes))), hex);
}

TEST(DdpTest, KeepsTheBytesOfAtomicRequests) {
  const auto encoded = [](PacketKind kind) {
    AtomicRequestBody body =
        AtomicRequestBody::Of(kind, {.compare_or_add = 0x51, .swap = 0x52});
    body.request = 7;
    body.stag = 0x01020304;
    body.offset = 0x1112131415161718;
    std::string hex = EncodedBody(body);
    const std::string bytes = absl::HexStringToBytes(hex);
    EXPECT_EQ(EncodedBody(AtomicRequestBody::Parse(Bytes(bytes))), hex);
    PacketKind kind_again = PacketKind::kNone;
    AtomicOperands operands;
    EXPECT_TRUE(
        AtomicRequestBody::Parse(Bytes(bytes)).ToPacket(kind_again, operands));
    EXPECT_EQ(kind_again, kind);
    EXPECT_EQ(operands.compare_or_add, 0x51u);
    return hex;
  };
  EXPECT_EQ(encoded(PacketKind::kFetchAdd),
            "00000000"
            "00000007"
            "01020304"
            "1112131415161718"
            "0000000000000051"
            "0000000000000000"  // Add, mask.
            "0000000000000000"
            "0000000000000000");
  EXPECT_EQ(encoded(PacketKind::kCompareSwap),
            "00000002"
            "00000007"
            "01020304"
            "1112131415161718"
            "0000000000000052"
            "ffffffffffffffff"  // Swap, mask.
            "0000000000000051"
            "ffffffffffffffff");  // Compare, mask.
}

TEST(DdpTest, RefusesAtomicsThatTheDeviceDoesNotHave) {
  PacketKind kind = PacketKind::kNone;
  AtomicOperands operands;
  AtomicRequestBody body = AtomicRequestBody::Of(PacketKind::kCompareSwap, {});
  body.compare_mask = 1;
  EXPECT_FALSE(body.ToPacket(kind, operands));
  body = AtomicRequestBody::Of(PacketKind::kFetchAdd, {});
  body.add_or_swap_mask = uint64_t{1} << 63;
  EXPECT_TRUE(body.ToPacket(kind, operands));
  body.add_or_swap_mask = uint64_t{1} << 31;
  EXPECT_FALSE(body.ToPacket(kind, operands));
  body.operation = 3;
  EXPECT_FALSE(body.ToPacket(kind, operands));
}

TEST(DdpTest, KeepsTheBytesOfAnAtomicResponse) {
  const std::string hex =
      "01020304"
      "1112131415161718";
  EXPECT_EQ(EncodedBody(AtomicResponseBody{.request = 0x01020304,
                                           .value = 0x1112131415161718}),
            hex);
  const std::string bytes = absl::HexStringToBytes(hex);
  EXPECT_EQ(EncodedBody(AtomicResponseBody::Parse(Bytes(bytes))), hex);
}

TEST(DdpTest, TellsTheReasonOfANakByTheCodesOfTerminate) {
  const auto told = [](NakReason reason) {
    const std::string hex = EncodedBody(TerminateBody::Of(reason));
    const std::string bytes = absl::HexStringToBytes(hex);
    return hex + " " + TerminateBody::Parse(Bytes(bytes)).text();
  };
  EXPECT_EQ(told(NakReason::kReceiverNotReady),
            "12020000 DDP: no receive request is posted");
  EXPECT_EQ(told(NakReason::kInvalidRequest),
            "02ff0000 RDMAP: an operation that cannot be done");
  EXPECT_EQ(told(NakReason::kRemoteAccess),
            "01010000 RDMAP: memory that may not be used");
  EXPECT_EQ(told(NakReason::kRemoteOperation),
            "02070000 RDMAP: an operation that cannot be done");
}

}  // namespace
}  // namespace verbena::soft
