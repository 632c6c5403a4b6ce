#include "tools/rpc_bench/options.h"

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace verbena::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<Options> Parse(const std::vector<const char*>& arguments) {
  return ParseOptions(arguments);
}

// The message with which `arguments` are refused; empty when they are not.
std::string Refusal(const std::vector<const char*>& arguments) {
  const absl::StatusOr<Options> options = ParseOptions(arguments);
  return options.ok() ? "" : std::string(options.status().message());
}

TEST(OptionsTest, WithoutArgumentsMeasureTheUsualSizes) {
  const absl::StatusOr<Options> options = Parse({});
  ASSERT_TRUE(options.ok());
  EXPECT_FALSE(options->server);
  EXPECT_FALSE(options->json);
  EXPECT_EQ(options->target, "");
  EXPECT_THAT(options->sizes_bytes, ElementsAre(64, 4096, 65536, 1048576));
  EXPECT_THAT(options->outstanding, ElementsAre(1, 32));
}

TEST(OptionsTest, TakeValuesAfterAnEqualSignOrASpace) {
  const absl::StatusOr<Options> options =
      Parse({"--size=4KiB", "--outstanding", "8", "--duration", "250ms",
             "--device=rxe0", "--target", "10.0.0.7:50051", "--json"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->sizes_bytes, ElementsAre(4096));
  EXPECT_THAT(options->outstanding, ElementsAre(8));
  EXPECT_EQ(options->duration, absl::Milliseconds(250));
  EXPECT_EQ(options->device, "rxe0");
  EXPECT_EQ(options->target, "10.0.0.7:50051");
  EXPECT_TRUE(options->json);
}

TEST(OptionsTest, TakeListsAndUnits) {
  const absl::StatusOr<Options> options =
      Parse({"--size=0,1B,2K,3KiB,4M,5MiB", "--outstanding=1,1024"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->sizes_bytes,
              ElementsAre(0, 1, 2048, 3072, 4 << 20, 5 << 20));
  EXPECT_THAT(options->outstanding, ElementsAre(1, 1024));
}

TEST(OptionsTest, ADurationWithoutUnitIsInSeconds) {
  EXPECT_EQ(Parse({"--duration=2"})->duration, absl::Seconds(2));
  EXPECT_EQ(Parse({"--duration=0.5"})->duration, absl::Milliseconds(500));
}

TEST(OptionsTest, AServerMaySayWhereItListens) {
  EXPECT_EQ(Parse({"--server"})->listen, "0.0.0.0:50051");
  EXPECT_EQ(Parse({"--server=[::1]:0"})->listen, "[::1]:0");
  EXPECT_TRUE(Parse({"--server", "--device=soft"})->server);
}

TEST(OptionsTest, RefuseUnknownFlags) {
  EXPECT_EQ(Refusal({"--speed=9"}),
            "unknown flag --speed; --help lists those there are");
  EXPECT_EQ(Refusal({"64"}), "unexpected argument 64; flags begin with --");
  EXPECT_EQ(Refusal({"-h"}), "unexpected argument -h; flags begin with --");
}

TEST(OptionsTest, RefuseImpossibleSizes) {
  for (const char* size :
       {"--size=-1", "--size=64MiB", "--size=KiB", "--size=1.5KiB",
        "--size=64,", "--size=7GiB", "--size=18446744073709551615K"}) {
    EXPECT_THAT(Refusal({size}), HasSubstr("want a number of bytes from 0"))
        << size;
  }
  EXPECT_EQ(Refusal({"--size=67108800"}), "");
  EXPECT_NE(Refusal({"--size=67108801"}), "");
}

TEST(OptionsTest, RefuseImpossibleDepths) {
  for (const char* depth : {"--outstanding=0", "--outstanding=1025",
                            "--outstanding=many", "--outstanding=-1"}) {
    EXPECT_THAT(Refusal({depth}), HasSubstr("want a number of calls from 1"))
        << depth;
  }
}

TEST(OptionsTest, RefuseImpossibleDurations) {
  for (const char* duration :
       {"--duration=0", "--duration=-1s", "--duration=2h", "--duration=inf",
        "--duration=nan", "--duration=soon", "--duration=1us"}) {
    EXPECT_THAT(Refusal({duration}), HasSubstr("want a time from 1ms to 1h"))
        << duration;
  }
}

TEST(OptionsTest, RefuseAddressesWithoutAPort) {
  for (const char* target : {"--target=10.0.0.7", "--target=10.0.0.7:0",
                             "--target=:1", "--target=10.0.0.7:65536"}) {
    EXPECT_THAT(Refusal({target}), HasSubstr("want an address with a port"))
        << target;
  }
}

TEST(OptionsTest, RefuseFlagsThatExcludeOneAnother) {
  EXPECT_EQ(Refusal({"--server", "--json"}),
            "--server and --json exclude one another: a server measures "
            "nothing");
  EXPECT_NE(Refusal({"--target=a:1", "--server"}), "");
}

TEST(OptionsTest, RefuseFlagsGivenTwiceOrWithoutValue) {
  EXPECT_EQ(Refusal({"--json", "--json"}), "--json is given twice");
  EXPECT_EQ(Refusal({"--device="}), "--device is followed by no value");
  EXPECT_EQ(Refusal({"--json=yes"}), "--json takes no value");
  EXPECT_EQ(Refusal({"--size"}), "--size is followed by no value");
  EXPECT_EQ(Refusal({"--target", "--json"}),
            "--target is followed by no value");
}

TEST(SizeNameTest, UsesTheLargestUnitThatFits) {
  EXPECT_EQ(SizeName(0), "0 B");
  EXPECT_EQ(SizeName(64), "64 B");
  EXPECT_EQ(SizeName(1025), "1025 B");
  EXPECT_EQ(SizeName(4096), "4 KiB");
  EXPECT_EQ(SizeName(1 << 20), "1 MiB");
}

}  // namespace
}  // namespace verbena::bench
