#include "transport/soft/iwarp/mpa.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/types/span.h"

namespace verbena::soft {
namespace {

constexpr char kRequest[] = "4d504120494420526571204672616d65";  // "...Req..."
constexpr char kReply[] = "4d504120494420526570204672616d65";
constexpr char kMagic[] = "56455242454e4131";

void SetUser(MpaFrame& frame, const std::string& text) {
  std::memcpy(frame.user.data(), text.data(), text.size());
  frame.user_bytes = static_cast<uint16_t>(text.size());
}

std::string User(const MpaFrame& frame) {
  return {reinterpret_cast<const char*>(frame.user.data()), frame.user_bytes};
}

std::string Encoded(const MpaFrame& frame) {
  std::byte bytes[kMpaFrameBytesMax];
  const size_t length = EncodeMpa(frame, bytes);
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes), length});
}

MpaResult Parse(const std::string& hex, MpaKind kind, MpaFrame& frame) {
  const std::string bytes = absl::HexStringToBytes(hex);
  // The span has their exact length, so that a sanitizer finds a byte too many.
  return ParseMpa(
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(bytes.data()),
                          bytes.size()),
      kind, frame);
}

std::string Error(const std::string& hex) {
  MpaFrame frame;
  const MpaResult result = Parse(hex, MpaKind::kRequest, frame);
  EXPECT_EQ(result.parsed, MpaParsed::kWrong) << hex;
  return result.error;
}

TEST(MpaTest, KeepsTheBytesOfARequest) {
  MpaFrame frame;
  frame.inbound_reads = 16;
  frame.outbound_reads = 5;
  SetUser(frame, "hi");
  EXPECT_EQ(Encoded(frame), kRequest + std::string("50"
                                                   "02"
                                                   "0006"
                                                   "0010"
                                                   "0005"
                                                   "6869"));
}

TEST(MpaTest, KeepsTheBytesOfAReplyThatRejects) {
  MpaFrame frame;
  frame.kind = MpaKind::kReply;
  frame.crc = false;
  frame.reject = true;
  frame.revision = 1;
  SetUser(frame, "no");
  EXPECT_EQ(Encoded(frame), kReply + std::string("20"
                                                 "01"
                                                 "0002"
                                                 "6e6f"));
}

TEST(MpaTest, KeepsTheBytesOfTheTrailer) {
  MpaFrame frame;
  frame.peer_to_peer = frame.first_read = true;
  SetUser(frame, "hi");
  frame.trailer = MpaTrailer{.features = 0x01020304,
                             .qp_num = 0x11121314,
                             .own_queue_pair = 0x21222324,
                             .reject_reason = 0x3132,
                             .retry_count = 7,
                             .rnr_retry_count = 6,
                             .version = 2};
  const std::string hex = Encoded(frame);
  EXPECT_EQ(hex, kRequest +
                     std::string("50"
                                 "02"
                                 "0022"
                                 "8000"
                                 "4000"
                                 "6869") +
                     kMagic +
                     "01020304"
                     "11121314"
                     "21222324"
                     "3132"
                     "07"
                     "06"
                     "02"
                     "00"
                     "0002");
  MpaFrame parsed;
  EXPECT_EQ(Parse(hex, MpaKind::kRequest, parsed).parsed, MpaParsed::kFrame);
  EXPECT_EQ(parsed.trailer, frame.trailer);
  EXPECT_EQ(User(parsed), "hi");
  EXPECT_TRUE(parsed.peer_to_peer);
  EXPECT_TRUE(parsed.first_read);
  EXPECT_FALSE(parsed.first_send);
  EXPECT_FALSE(parsed.first_write);
}

TEST(MpaTest, AsksForTheHeaderAndThenForTheRestOfTheFrameOnly) {
  const std::string hex = kRequest + std::string(
                                         "50"
                                         "02"
                                         "0006"
                                         "0010"
                                         "0005"
                                         "6869");
  MpaFrame frame;
  for (size_t bytes = 0; bytes < 26; ++bytes) {
    const MpaResult result =
        Parse(hex.substr(0, 2 * bytes), MpaKind::kRequest, frame);
    EXPECT_EQ(result.parsed, MpaParsed::kIncomplete) << bytes;
    EXPECT_EQ(result.needed, bytes < 20 ? 20u : 26u) << bytes;
  }
  const MpaResult result = Parse(hex + "ff", MpaKind::kRequest, frame);
  EXPECT_EQ(result.parsed, MpaParsed::kFrame);
  EXPECT_EQ(result.needed, 26u);
  EXPECT_TRUE(frame.crc);
  EXPECT_TRUE(frame.enhanced);
  EXPECT_EQ(frame.inbound_reads, 16u);
  EXPECT_EQ(frame.outbound_reads, 5u);
  EXPECT_EQ(User(frame), "hi");
  EXPECT_FALSE(frame.trailer.has_value());
}

TEST(MpaTest, ReadsRevisionOneOfOthers) {
  MpaFrame frame;
  EXPECT_EQ(Parse(kReply + std::string("20"
                                       "01"
                                       "0003"
                                       "616263"),
                  MpaKind::kReply, frame)
                .parsed,
            MpaParsed::kFrame);
  EXPECT_TRUE(frame.reject);
  EXPECT_FALSE(frame.crc);
  EXPECT_FALSE(frame.enhanced);
  EXPECT_EQ(User(frame), "abc");
}

TEST(MpaTest, RevisionTwoWithoutTheFlagHasNoDepths) {
  MpaFrame frame;
  EXPECT_EQ(Parse(kRequest + std::string("40"
                                         "02"
                                         "0000"),
                  MpaKind::kRequest, frame)
                .parsed,
            MpaParsed::kFrame);
  EXPECT_FALSE(frame.enhanced);
  EXPECT_EQ(frame.user_bytes, 0u);
}

TEST(MpaTest, CarriesAsMuchPrivateDataAsThereMayBe) {
  MpaFrame frame;
  frame.trailer = MpaTrailer{};
  SetUser(frame, std::string(kMpaUserBytesMax, 'x'));
  const std::string hex = Encoded(frame);
  EXPECT_EQ(hex.size(), 2 * kMpaFrameBytesMax);
  MpaFrame parsed;
  EXPECT_EQ(Parse(hex, MpaKind::kRequest, parsed).parsed, MpaParsed::kFrame);
  EXPECT_EQ(User(parsed), User(frame));
}

TEST(MpaTest, RefusesMarkersInWords) {
  MpaFrame frame;
  const MpaResult result = Parse(kRequest + std::string("c0"
                                                        "01"
                                                        "0000"),
                                 MpaKind::kRequest, frame);
  EXPECT_EQ(result.parsed, MpaParsed::kRefused);
  EXPECT_STREQ(result.error,
               "the peer demands MPA markers, which this device never sends");
}

TEST(MpaTest, RefusesANewerRevision) {
  MpaFrame frame;
  const MpaResult result = Parse(kRequest + std::string("40"
                                                        "03"
                                                        "0000"),
                                 MpaKind::kRequest, frame);
  EXPECT_EQ(result.parsed, MpaParsed::kRefused);
  EXPECT_EQ(frame.revision, 3u);
}

TEST(MpaTest, AReplyHasTheRevisionOfItsRequest) {
  MpaFrame request;
  request.revision = 1;
  request.enhanced = false;
  MpaFrame reply;
  FitToRequest(request, reply);
  EXPECT_EQ(reply.revision, 1);
  EXPECT_FALSE(reply.enhanced || reply.peer_to_peer);
}

TEST(MpaTest, AReplyChoosesTheCheapestFirstMessage) {
  MpaFrame request;
  request.peer_to_peer = true;
  request.first_send = request.first_read = request.first_write = true;
  MpaFrame writes;
  FitToRequest(request, writes);
  EXPECT_TRUE(writes.peer_to_peer && writes.first_write);
  EXPECT_FALSE(writes.first_read || writes.first_send);
  request.first_write = false;
  MpaFrame reads;
  FitToRequest(request, reads);
  EXPECT_TRUE(reads.peer_to_peer && reads.first_read);
  EXPECT_FALSE(reads.first_write || reads.first_send);
}

TEST(MpaTest, FindsAnotherProtocolByItsFirstByte) {
  const std::string error =
      "the first bytes are no MPA frame: the peer does not speak iWARP";
  EXPECT_EQ(Error("50"), error);
  EXPECT_EQ(Error("4d50412049442052657020"), error) << "a reply";
}

TEST(MpaTest, RefusesWhatNoCorrectPeerSays) {
  EXPECT_EQ(Error(kRequest + std::string("50"
                                         "02"
                                         "0201")),
            "an MPA frame with more than 512 bytes of private data");
  EXPECT_EQ(Error(kRequest + std::string("50"
                                         "00"
                                         "0000")),
            "an MPA frame of revision 0");
  EXPECT_EQ(Error(kRequest + std::string("50"
                                         "02"
                                         "0003"
                                         "000000")),
            "an enhanced MPA frame without IRD and ORD");
  EXPECT_EQ(Error(kRequest +
                  std::string("40"
                              "02"
                              "001c") +
                  kMagic +
                  "00000000"
                  "00000000"
                  "00000000"
                  "0000"
                  "00"
                  "00"
                  "00"
                  "00"
                  "0001"),
            "an MPA frame of this device with private data of a wrong length");
}

}  // namespace
}  // namespace verbena::soft
