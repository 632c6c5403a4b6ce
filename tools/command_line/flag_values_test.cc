#include "tools/command_line/flag_values.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace verbena::tool {
namespace {

using testing::HasSubstr;

constexpr uint64_t kMax = 67108800;

TEST(ReadBytesTest, KnowsUnits) {
  EXPECT_EQ(*ReadBytes("size", "0", kMax), 0u);
  EXPECT_EQ(*ReadBytes("size", "1B", kMax), 1u);
  EXPECT_EQ(*ReadBytes("size", "2K", kMax), 2048u);
  EXPECT_EQ(*ReadBytes("size", "3KiB", kMax), 3072u);
  EXPECT_EQ(*ReadBytes("size", "4M", kMax), 4u << 20);
  EXPECT_EQ(*ReadBytes("size", "5MiB", kMax), 5u << 20);
  EXPECT_EQ(*ReadBytes("size", "67108800", kMax), kMax);
}

TEST(ReadBytesTest, SaysWhichFlagWhatWasSeenAndWhatWouldDo) {
  EXPECT_EQ(ReadBytes("size", "-1", kMax).status(),
            absl::InvalidArgumentError(
                "--size=-1: want a number of bytes from 0 to 67108800, as in "
                "64, 4KiB or 1MiB"));
  for (const char* text : {"64MiB", "KiB", "1.5KiB", "7GiB", "", "67108801",
                           "18446744073709551615K"}) {
    EXPECT_FALSE(ReadBytes("size", text, kMax).ok()) << text;
  }
}

TEST(ReadNumberTest, HasBounds) {
  EXPECT_EQ(*ReadNumber("outstanding", "1024", 1, 1024), 1024);
  for (const char* text : {"0", "1025", "many", "-1", ""}) {
    EXPECT_THAT(ReadNumber("outstanding", text, 1, 1024).status().message(),
                HasSubstr(": want a number from 1 to 1024"))
        << text;
  }
}

TEST(CheckWordsTest, AllowsSomeOfThose) {
  EXPECT_EQ(CheckWords("layer", {"rpc", "verbs"}, "verbs,transport,rpc"),
            absl::OkStatus());
  EXPECT_EQ(CheckWords("layer", {"rpc", "tcp"}, "verbs,transport,rpc"),
            absl::InvalidArgumentError(
                "--layer=tcp: want some of verbs,transport,rpc"));
}

TEST(CheckNumberTest, HasBounds) {
  EXPECT_EQ(CheckNumber("rate", 1.5, 1, 2), absl::OkStatus());
  EXPECT_EQ(
      CheckNumber("rate", 0.5, 1, 2),
      absl::InvalidArgumentError("--rate=0.5: want a number from 1 to 2"));
  EXPECT_FALSE(CheckNumber("rate", 2.5, 1, 2).ok());
}

TEST(CheckTimeTest, HasBounds) {
  const absl::Duration second = absl::Seconds(1);
  EXPECT_EQ(CheckTime("time", second, second, second), absl::OkStatus());
  EXPECT_EQ(CheckTime("time", absl::Hours(2), second, absl::Hours(1)),
            absl::InvalidArgumentError("--time=2h: want a time from 1s to 1h"));
  EXPECT_FALSE(CheckTime("time", absl::ZeroDuration(), second, second).ok());
}

}  // namespace
}  // namespace verbena::tool
