#include "rpc/internal/codec/metadata_codec.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "rpc/metadata.h"
#include "transport/base/limits.h"

namespace verbena::internal {
namespace {

std::vector<uint8_t> Encode(const Metadata& metadata) {
  std::vector<uint8_t> bytes(MeasureMetadata(metadata).value());
  uint8_t* const end = bytes.data() + bytes.size();
  EXPECT_EQ(WriteMetadata(metadata, bytes.data(), end), end);
  return bytes;
}

Metadata Decode(const std::vector<uint8_t>& bytes) {
  Metadata metadata;
  EXPECT_EQ(ParseMetadata(bytes, &metadata), absl::OkStatus());
  return metadata;
}

TEST(MetadataCodecTest, NoMetadataTakesNoBytes) {
  EXPECT_TRUE(Encode({}).empty());
  EXPECT_TRUE(Decode({}).empty());
}

TEST(MetadataCodecTest, WritesLengthsThenKeyThenValue) {
  EXPECT_EQ(Encode({{"k", "vw"}}),
            (std::vector<uint8_t>{1, 0, 2, 0, 'k', 'v', 'w'}));
}

TEST(MetadataCodecTest, EveryPairComesBack) {
  const Metadata metadata = {{"trace", "1234"},
                             {"trace", "5678"},
                             {"", ""},
                             {std::string("\0\xff", 2), "binary"},
                             {"long", std::string(1000, 'x')}};
  EXPECT_EQ(Decode(Encode(metadata)), metadata);
}

TEST(MetadataCodecTest, TheLimitIsAcceptedAndOneByteMoreIsNot) {
  constexpr size_t kMost = transport::kMaxMetadataBytes;
  Metadata metadata = {{"k", std::string(kMost - 5, 'x')}};
  EXPECT_EQ(Decode(Encode(metadata)), metadata);
  metadata = {{"k", std::string(kMost - 4, 'x')}};
  EXPECT_EQ(MeasureMetadata(metadata).status(),
            absl::ResourceExhaustedError(
                "metadata of 65536 bytes are larger than the largest value of "
                "max_metadata_bytes and SetMaxMetadataSize, 65535"));
}

TEST(MetadataCodecTest, EveryTruncationIsRefusedOrAWholePairShorter) {
  const std::vector<uint8_t> bytes = Encode({{"a", "1"}, {"bb", "22"}});
  for (size_t length = 0; length < bytes.size(); ++length) {
    Metadata metadata;
    const absl::Status status =
        ParseMetadata(absl::MakeConstSpan(bytes).subspan(0, length), &metadata);
    if (length == 0 || length == 6) {
      EXPECT_EQ(status, absl::OkStatus()) << length;
    } else {
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << length;
    }
  }
}

TEST(MetadataCodecTest, LengthsBeyondTheEndAreRefused) {
  Metadata metadata;
  const std::vector<uint8_t> bytes = {0xff, 0xff, 0xff, 0xff, 'k'};
  EXPECT_EQ(ParseMetadata(bytes, &metadata).code(),
            absl::StatusCode::kInternal);
  EXPECT_TRUE(metadata.empty());
}

TEST(MetadataCodecDeathTest, NothingIsWrittenBeyondTheLimit) {
  const Metadata metadata = {{"key", "value"}, {"other", "value"}};
  std::vector<uint8_t> bytes(MeasureMetadata(metadata).value());
  EXPECT_DEATH(
      WriteMetadata(metadata, bytes.data(), bytes.data() + bytes.size() - 1),
      "room for a metadata pair");
}

}  // namespace
}  // namespace verbena::internal
