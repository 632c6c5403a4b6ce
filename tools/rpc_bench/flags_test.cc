#include "tools/rpc_bench/flags.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace verbena::bench {
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

TEST(ReadPinningTest, PinsBothOrOneOrNone) {
  EXPECT_FALSE(ReadPinning("pin", "off")->on);
  EXPECT_TRUE(ReadPinning("pin", "")->on);
  EXPECT_EQ(ReadPinning("pin", "")->client, -1);
  EXPECT_EQ(ReadPinning("pin", "0,1")->client, 0);
  EXPECT_EQ(ReadPinning("pin", "0,1")->server, 1);
  EXPECT_EQ(ReadPinning("pin", "3")->server, 3);
  for (const char* text : {"on", "0,1,2", "-1", "1024"}) {
    EXPECT_FALSE(ReadPinning("pin", text).ok()) << text;
  }
}

}  // namespace
}  // namespace verbena::bench
