#include "transport/wire/sealed_part.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

namespace verbena::transport {
namespace {

// Adds the chunk's number to each byte; the tag is the number and the length.
class AddingSeal final : public Sealer, public Opener {
 public:
  void SealFrame(uint64_t, absl::Span<uint8_t>) override {}
  bool OpenFrame(uint64_t, absl::Span<uint8_t>) override { return false; }
  void SealChunk(uint64_t number, absl::Span<const uint8_t> plain,
                 uint8_t* sealed, uint8_t* tag) override {
    for (size_t i = 0; i < plain.size(); ++i) {
      sealed[i] = static_cast<uint8_t>(plain[i] + number);
    }
    WriteTag(number, plain.size(), tag);
    lengths[number] = plain.size();
  }
  bool OpenChunk(uint64_t number, absl::Span<uint8_t> chunk,
                 const uint8_t* tag) override {
    uint8_t wanted[kSealTagBytes];
    WriteTag(number, chunk.size(), wanted);
    for (uint8_t& byte : chunk) byte = static_cast<uint8_t>(byte - number);
    return std::memcmp(wanted, tag, sizeof(wanted)) == 0;
  }

  std::map<uint64_t, size_t> lengths;  // Lengths of chunks by their numbers.

 private:
  static void WriteTag(uint64_t number, uint64_t bytes, uint8_t* tag) {
    std::memcpy(tag, &number, sizeof(number));
    std::memcpy(tag + sizeof(number), &bytes, sizeof(bytes));
  }
};

std::vector<uint8_t> Bytes(size_t count) {
  std::vector<uint8_t> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(i * 7);
  return bytes;
}

TEST(SealedPartTest, AnEmptyPartTakesNoMemory) {
  EXPECT_EQ(SealedRequestBytes(0), 0u);
  EXPECT_EQ(SealedReplyBytes(0), 0u);
  EXPECT_EQ(ReplyLeaseBytes(true, 0, 0), 0u);
}

TEST(SealedPartTest, EachChunkHasATag) {
  EXPECT_EQ(SealedReplyBytes(1), 17u);
  EXPECT_EQ(SealedReplyBytes(kSealChunkBytes), kSealChunkBytes + 16u);
  EXPECT_EQ(SealedReplyBytes(kSealChunkBytes + 1), kSealChunkBytes + 33u);
  EXPECT_EQ(SealedRequestStart(1), 64u);
  EXPECT_EQ(SealedRequestStart(5 * uint64_t{kSealChunkBytes}), 128u);
  EXPECT_EQ(ReplyLeaseBytes(true, 100, 100), 128u + 116u);
  EXPECT_EQ(SealChunksOf({.message_inline = false, .attachment_inline = false},
                         kSealChunkBytes + 1, 1),
            3u);
}

TEST(SealedPartTest, IsSealedChunkByChunkAsFarAsItIsWanted) {
  const std::vector<uint8_t> plain = Bytes(2 * kSealChunkBytes + 5);
  std::vector<uint8_t> part(plain.size());
  std::vector<uint8_t> tags(3 * kSealTagBytes);
  AddingSeal seal;
  PartSeal sealing(&seal, 7, plain, part.data(), tags.data());
  sealing.SealTo(1);
  EXPECT_EQ(seal.lengths.size(), 1u);
  sealing.SealTo(kSealChunkBytes);
  EXPECT_EQ(seal.lengths.size(), 1u);
  sealing.SealTo(kSealChunkBytes + 1);
  EXPECT_EQ(seal.lengths.size(), 2u);
  sealing.SealTo(UINT64_MAX);
  EXPECT_EQ(seal.lengths,
            (std::map<uint64_t, size_t>{
                {7, kSealChunkBytes}, {8, kSealChunkBytes}, {9, 5}}));

  PartSeal opening(&seal, 7, absl::MakeSpan(part), tags.data());
  EXPECT_TRUE(opening.OpenTo(kSealChunkBytes - 1));
  EXPECT_NE(part[0], plain[0]) << "a chunk was opened before it had come";
  EXPECT_TRUE(opening.OpenTo(kSealChunkBytes));
  EXPECT_EQ(part[0], plain[0]);
  EXPECT_NE(part[kSealChunkBytes], plain[kSealChunkBytes]);
  EXPECT_TRUE(opening.OpenAll());
  EXPECT_EQ(part, plain);
}

TEST(SealedPartTest, AChunkThatDoesNotOpenEndsItAll) {
  const std::vector<uint8_t> plain = Bytes(2 * kSealChunkBytes);
  std::vector<uint8_t> part(plain.size());
  std::vector<uint8_t> tags(2 * kSealTagBytes);
  AddingSeal seal;
  PartSeal(&seal, 1, plain, part.data(), tags.data()).SealTo(plain.size());
  ++tags[0];
  PartSeal opening(&seal, 1, absl::MakeSpan(part), tags.data());
  EXPECT_FALSE(opening.OpenTo(kSealChunkBytes));
  EXPECT_FALSE(opening.OpenAll());
}

TEST(SealedPartTest, MayBeSealedWhereItStands) {
  const std::vector<uint8_t> plain = Bytes(kSealChunkBytes + 100);
  std::vector<uint8_t> part = plain;
  part.resize(SealedReplyBytes(plain.size()));
  uint8_t* const tags = part.data() + plain.size();
  AddingSeal seal;
  PartSeal(&seal, 3, {part.data(), plain.size()}, part.data(), tags)
      .SealTo(plain.size());
  const absl::Span<uint8_t> sealed(part.data(), plain.size());
  EXPECT_NE(part[5], plain[5]);
  EXPECT_TRUE(PartSeal(&seal, 3, sealed, tags).OpenAll());
  part.resize(plain.size());
  EXPECT_EQ(part, plain);
}

}  // namespace
}  // namespace verbena::transport
