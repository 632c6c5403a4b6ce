#include "rpc/internal/codec/method_name.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/method_hash.h"
#include "rpc/internal/codec/metadata_codec.h"

namespace verbena::internal {
namespace {

using testing::HasSubstr;
using testing::Not;

absl::StatusOr<std::string> Take(const std::string& name) {
  Metadata metadata = {{std::string(kMethodNameKey), name}};
  return TakeMethodName(MethodHash(name), &metadata);
}

TEST(MethodNameTest, WhatIsWrittenIsTakenOutOfTheMetadata) {
  const std::string name = "pkg.v1.My_Service/Do";
  std::vector<uint8_t> bytes(MethodNameBytes(name));
  uint8_t* const end = bytes.data() + bytes.size();
  ASSERT_EQ(WriteMethodName(name, bytes.data(), end), end);
  Metadata metadata = {{"trace", "1234"}};
  ASSERT_EQ(ParseMetadata(bytes, &metadata), absl::OkStatus());
  ASSERT_EQ(metadata.size(), 2u);
  const absl::StatusOr<std::string> taken =
      TakeMethodName(MethodHash(name), &metadata);
  ASSERT_EQ(taken.status(), absl::OkStatus());
  EXPECT_EQ(*taken, name);
  EXPECT_EQ(metadata, (Metadata{{"trace", "1234"}}));
}

TEST(MethodNameTest, TheFirstOfSeveralCountsAndAllAreRemoved) {
  Metadata metadata = {{std::string(kMethodNameKey), "a.B/C"},
                       {std::string(kMethodNameKey), "x.Y/Z"}};
  EXPECT_EQ(*TakeMethodName(MethodHash("a.B/C"), &metadata), "a.B/C");
  EXPECT_TRUE(metadata.empty());
}

TEST(MethodNameTest, WithoutANameNothingIsFound) {
  Metadata metadata = {{"trace", "1234"}};
  EXPECT_TRUE(absl::IsNotFound(TakeMethodName(1, &metadata).status()));
  EXPECT_EQ(metadata.size(), 1u);
}

TEST(MethodNameTest, TheNameOfAnotherMethodIsRefused) {
  Metadata metadata = {{std::string(kMethodNameKey), "a.B/C"}};
  const absl::Status status =
      TakeMethodName(MethodHash("a.B/D"), &metadata).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("a.B/C"));
}

TEST(MethodNameTest, WhatIsNoNameIsRefused) {
  for (const std::string& name :
       {std::string(), std::string("/"), std::string("a.B"),
        std::string("/a.B/C"), std::string("a.B/"), std::string("a.B/C/D"),
        std::string("a.B/C D"), std::string("a.B/C\0", 6),
        std::string("a.B/\x1b[2J"), std::string("a.B/\xff"),
        std::string(kMaxMethodNameBytes, 'a')}) {
    const absl::Status status = Take(name).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  }
}

TEST(MethodNameTest, WhatIsQuotedOfABadNameIsShortAndPrintable) {
  const std::string name = "\x1b[2J\n" + std::string(100000, '\xff');
  const absl::Status status = CheckMethodName(name);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_LT(status.message().size(), 500u);
  EXPECT_THAT(std::string(status.message()), HasSubstr("\\x1b[2J\\n"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\x1b")));
}

TEST(MethodNameTest, TheLongestNameIsAcceptedAndALongerOneIsNot) {
  const std::string name = "s/" + std::string(kMaxMethodNameBytes - 2, 'm');
  EXPECT_EQ(CheckMethodName(name), absl::OkStatus());
  EXPECT_TRUE(absl::IsInvalidArgument(CheckMethodName(name + "m")));
}

}  // namespace
}  // namespace verbena::internal
