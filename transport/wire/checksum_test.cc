#include "transport/wire/checksum.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "transport/wire/frame.h"

namespace verbena::transport {
namespace {

absl::Span<const uint8_t> Bytes(absl::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// From RFC 3720, B.4, and the check value that catalogues give.
TEST(ChecksumTest, IsCastagnolis) {
  EXPECT_EQ(Crc32c({}), 0u);
  EXPECT_EQ(Crc32c(Bytes("123456789")), 0xe3069283u);
  EXPECT_EQ(Crc32c(Bytes(std::string(32, '\0'))), 0x8a9136aau);
  EXPECT_EQ(Crc32c(Bytes(std::string(32, '\xff'))), 0x62a8ab43u);
}

TEST(ChecksumTest, OfTwoPartsIsThatOfTheWhole) {
  std::string text(5000, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i);
  const uint32_t whole = Crc32c(Bytes(text));
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{63}, size_t{64},
                           size_t{4097}, text.size()}) {
    const absl::string_view view = text;
    EXPECT_EQ(
        Crc32c(Bytes(view.substr(cut)), Crc32c(Bytes(view.substr(0, cut)))),
        whole)
        << cut;
  }
}

class FrameSumsTest : public testing::Test {
 protected:
  // A frame of `body` bytes beside its header, with its checksums.
  static std::vector<uint8_t> Frame(size_t body) {
    std::vector<uint8_t> frame(sizeof(FrameHeader) + body, 7);
    const auto bytes = static_cast<uint32_t>(frame.size());
    frame.resize(frame.size() + sizeof(FrameSums));
    EXPECT_EQ(AppendSums(frame.data(), bytes,
                         {.message = 0x11121314, .attachment = 0x21222324}),
              frame.size());
    return frame;
  }
  // Whether its checksums are those of its bytes.
  static bool IsSound(const std::vector<uint8_t>& bytes) {
    absl::Span<const uint8_t> frame = bytes;
    FrameSums stated = {};
    uint32_t found = 0;
    return TakeSums(&frame, &stated, &found) && stated.frame == found;
  }
};

// A change here is a change of the protocol.
TEST_F(FrameSumsTest, StandInTheirOrderBehindTheFrame) {
  const std::vector<uint8_t> bytes = Frame(3);
  ASSERT_EQ(bytes.size(), sizeof(FrameHeader) + 3 + 12);
  const uint8_t* const sums = bytes.data() + sizeof(FrameHeader) + 3;
  EXPECT_EQ(
      std::vector<uint8_t>(sums, sums + 8),
      (std::vector<uint8_t>{0x14, 0x13, 0x12, 0x11, 0x24, 0x23, 0x22, 0x21}));
  uint32_t frame = 0;
  std::memcpy(&frame, sums + 8, sizeof(frame));
  EXPECT_EQ(frame, Crc32c(absl::MakeConstSpan(bytes).first(bytes.size() - 4)));
}

TEST_F(FrameSumsTest, AreTakenOffAgain) {
  const std::vector<uint8_t> bytes = Frame(100);
  absl::Span<const uint8_t> frame = bytes;
  FrameSums stated = {};
  uint32_t found = 0;
  ASSERT_TRUE(TakeSums(&frame, &stated, &found));
  EXPECT_EQ(frame.size(), sizeof(FrameHeader) + 100);
  EXPECT_EQ(frame.data(), bytes.data());
  EXPECT_EQ(stated.parts.message, 0x11121314u);
  EXPECT_EQ(stated.parts.attachment, 0x21222324u);
  EXPECT_EQ(stated.frame, found);
}

TEST_F(FrameSumsTest, TellEveryBitThatIsAnother) {
  std::vector<uint8_t> bytes = Frame(20);
  ASSERT_TRUE(IsSound(bytes));
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const auto mask = static_cast<uint8_t>(1 << (bit % 8));
    bytes[bit / 8] ^= mask;
    EXPECT_FALSE(IsSound(bytes)) << bit;
    bytes[bit / 8] ^= mask;
  }
}

TEST_F(FrameSumsTest, AreNotInAFrameThatIsTooShort) {
  const std::vector<uint8_t> bytes = Frame(0);
  for (size_t length = 0; length < bytes.size(); ++length) {
    absl::Span<const uint8_t> frame = absl::MakeConstSpan(bytes).first(length);
    FrameSums stated = {};
    uint32_t found = 0;
    EXPECT_FALSE(TakeSums(&frame, &stated, &found)) << length;
    EXPECT_EQ(frame.size(), length);
  }
}

}  // namespace
}  // namespace verbena::transport
