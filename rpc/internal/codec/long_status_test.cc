#include "rpc/internal/codec/long_status.h"

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/metadata.h"
#include "transport/base/limits.h"

namespace verbena::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr size_t kHead = transport::kMaxStatusMessageBytes;

TEST(LongStatusTest, TextIsCutBetweenCharacters) {
  // Characters of one, two, three and four bytes.
  const std::string text = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x8c\xbf";
  const size_t lengths[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
  for (size_t bytes = 0; bytes < std::size(lengths); ++bytes) {
    EXPECT_EQ(CutText(text, bytes), text.substr(0, lengths[bytes])) << bytes;
  }
}

TEST(LongStatusTest, BytesThatAreNoTextAreCutAnywhere) {
  const std::string bytes(100, '\x80');
  for (const size_t most : {0, 1, 2, 3, 50, 99, 100, 101}) {
    EXPECT_EQ(CutText(bytes, most), bytes.substr(0, most));
  }
}

TEST(LongStatusTest, AStatusThatIsCutKeepsItsCodeAndPayloads) {
  absl::Status status = absl::NotFoundError("gone for good");
  status.SetPayload("a", absl::Cord("1"));
  status.SetPayload("b", absl::Cord("2"));
  const absl::Status cut = CutMessage(status, 4);
  EXPECT_EQ(cut.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(cut.message(), "gone");
  EXPECT_EQ(cut.GetPayload("a"), absl::Cord("1"));
  EXPECT_EQ(cut.GetPayload("b"), absl::Cord("2"));
}

TEST(LongStatusTest, TheRestIsTakenOutOfTheMetadata) {
  Metadata trailing = {{"key", "value"}};
  EXPECT_EQ(TakeStatusRest(3, &trailing).value(), "");
  trailing.emplace(kStatusRestKey, "rest");
  EXPECT_EQ(TakeStatusRest(kHead, &trailing).value(), "rest");
  EXPECT_THAT(trailing, ElementsAre(Pair("key", "value")));
}

TEST(LongStatusTest, ARestWhereThereWasRoomIsTheServersFault) {
  for (const size_t head : {size_t{0}, kHead - 1}) {
    Metadata trailing = {{std::string(kStatusRestKey), "rest"}};
    const absl::Status status = TakeStatusRest(head, &trailing).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr(absl::StrCat("rest of a status message (4 bytes) after only ",
                               head, " bytes of it")));
    EXPECT_TRUE(trailing.empty());
  }
}

TEST(LongStatusTest, SeveralRestsAreTheServersFault) {
  Metadata trailing = {{std::string(kStatusRestKey), "one"},
                       {std::string(kStatusRestKey), "two"}};
  const absl::Status status = TakeStatusRest(kHead, &trailing).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("twice"));
  EXPECT_TRUE(trailing.empty());
}

}  // namespace
}  // namespace verbena::internal
