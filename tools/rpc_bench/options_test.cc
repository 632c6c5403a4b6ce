#include "tools/rpc_bench/options.h"

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/rpc_bench/workload.h"

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
  EXPECT_FALSE(options->json.wanted);
  EXPECT_THAT(options->layers, ElementsAre("verbs", "transport", "rpc"));
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
  EXPECT_TRUE(options->json.wanted);
  EXPECT_EQ(options->json.file, "");
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

TEST(OptionsTest, ChooseLayersAndWhatTheVerbsDo) {
  const absl::StatusOr<Options> options =
      Parse({"--layer=rpc,verbs", "--verbs-op=write,read", "--rx-depth=64",
             "--inline=0", "--ib-port=1", "--gid-index=0", "--mtu=1024",
             "--bulk-threshold=16KiB"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->layers, ElementsAre("rpc", "verbs"));
  EXPECT_THAT(options->verbs_ops, ElementsAre(Op::kWrite, Op::kRead));
  EXPECT_EQ(options->receive_depth, 64u);
  EXPECT_EQ(options->inline_bytes, 0u);
  EXPECT_EQ(options->ib_port, 1);
  EXPECT_EQ(options->gid_index, 0);
  EXPECT_EQ(options->mtu_bytes, 1024);
  EXPECT_EQ(options->bulk_threshold_bytes, 16384u);
}

TEST(OptionsTest, ChooseWhatTheTransportContinues) {
  EXPECT_EQ(Parse({"--continued-max=32KiB"})->continued_max_bytes, 32768u);
  EXPECT_EQ(Parse({"--server", "--continued-max=0"})->continued_max_bytes, 0u);
  EXPECT_THAT(Refusal({"--continued-max=1MiB"}), HasSubstr("at most 68 KiB"));
}

TEST(OptionsTest, OutputsMayGoToFiles) {
  const absl::StatusOr<Options> options =
      Parse({"--json=a.json", "--csv", "--plot=a.svg"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->json.file, "a.json");
  EXPECT_TRUE(options->csv.wanted);
  EXPECT_EQ(options->csv.file, "");
  EXPECT_EQ(options->plot, "a.svg");
}

TEST(OptionsTest, PinBothOrOneOrNone) {
  EXPECT_TRUE(Parse({})->pin);
  EXPECT_FALSE(Parse({})->pin_client.has_value());
  EXPECT_FALSE(Parse({"--pin=off"})->pin);
  EXPECT_EQ(Parse({"--pin=0,1"})->pin_client, 0);
  EXPECT_EQ(Parse({"--pin=0,1"})->pin_server, 1);
  EXPECT_EQ(Parse({"--server", "--pin=3"})->pin_server, 3);
  EXPECT_NE(Refusal({"--pin=on"}), "");
  EXPECT_NE(Refusal({"--pin=0,1,2"}), "");
}

TEST(OptionsTest, RefuseWhatDoesNotExist) {
  EXPECT_EQ(Refusal({"--layer=tcp"}),
            "--layer=tcp: want verbs, transport, rpc, or several with commas");
  EXPECT_THAT(Refusal({"--verbs-op=atomic"}), HasSubstr("want echo, send"));
  EXPECT_THAT(Refusal({"--payload=other"}), HasSubstr("want field"));
  EXPECT_EQ(Parse({})->payload, PayloadPlace::kBySize);
  EXPECT_EQ(Parse({"--payload=attachment"})->payload,
            PayloadPlace::kAttachment);
  EXPECT_EQ(Parse({"--payload=field"})->payload, PayloadPlace::kField);
  EXPECT_THAT(Refusal({"--mtu=1500"}), HasSubstr("want 256, 512"));
  EXPECT_THAT(Refusal({"--rate=0"}), HasSubstr("want calls a second"));
  EXPECT_THAT(Refusal({"--iterations=0"}), HasSubstr("want a number from 1"));
}

TEST(OptionsTest, RefuseFlagsThatExcludeOneAnother) {
  EXPECT_EQ(Refusal({"--server", "--json"}),
            "--server and --json exclude one another: a server measures "
            "nothing");
  EXPECT_NE(Refusal({"--target=a:1", "--server"}), "");
  EXPECT_EQ(Refusal({"--iterations=5", "--duration=1s"}),
            "--iterations and --duration exclude one another: each says how "
            "long");
  EXPECT_EQ(Refusal({"--server", "--events"}), "");
}

TEST(OptionsTest, RefuseFlagsGivenTwiceOrWithoutValue) {
  EXPECT_EQ(Refusal({"--json", "--json"}), "--json is given twice");
  EXPECT_EQ(Refusal({"--device="}), "--device is followed by no value");
  EXPECT_EQ(Refusal({"--events=yes"}), "--events takes no value");
  EXPECT_EQ(Refusal({"--json="}), "--json is followed by no value");
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
