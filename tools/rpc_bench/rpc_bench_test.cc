// rpc_bench as a user runs it.
//
// Argument: its path. Honours VERBENA_DEVICE.

#include <sys/types.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "tests/testing/child_process.h"
#include "tools/rpc_bench/json_report.pb.h"

namespace verbena::bench {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_support::ChildProcess;
using testing_support::Ran;
using testing_support::TestAddress;
using testing_support::WordAfter;

std::string bench_path;

Ran RunBench(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), bench_path);
  return testing_support::RunToEnd(arguments);
}

// Parses all of `output`, so that nothing but one object may be there, without
// fields that are not in the schema.
JsonReport ParseReport(const std::string& output) {
  JsonReport report;
  const auto status =
      google::protobuf::util::JsonStringToMessage(output, &report);
  EXPECT_TRUE(status.ok()) << status.ToString() << "\n" << output;
  return report;
}

// Waits, not for ever, until process `pid` has a child.
bool HasChild(pid_t pid) {
  const std::string directory = "/proc/" + std::to_string(pid) + "/task/" +
                                std::to_string(pid) + "/children";
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (absl::Now() < deadline) {
    std::string child;
    if (std::ifstream(directory) >> child) return true;
    std::this_thread::yield();
  }
  return false;
}

TEST(RpcBenchTest, MeasuresAServerOfItsOwn) {
  const Ran ran = RunBench({"--duration=20ms"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_EQ(ran.errors, "");
  EXPECT_THAT(ran.output, HasSubstr("device: "));
  for (const char* text :
       {"1 outstanding", "32 outstanding", " 64 B ", " 4 KiB ", " 64 KiB ",
        " 1 MiB ", "p99.9 us", "calls/s", "MB/s", "errors"}) {
    EXPECT_THAT(ran.output, HasSubstr(text));
  }
  EXPECT_THAT(ran.output, Not(HasSubstr("the first:")));
}

TEST(RpcBenchTest, JsonIsOneObjectWithEveryField) {
  const Ran ran = RunBench(
      {"--size=64,4KiB", "--outstanding=1,8", "--duration=20ms", "--json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.errors;
  const JsonReport report = ParseReport(ran.output);
  EXPECT_NE(report.device(), "");
  ASSERT_EQ(report.results_size(), 4);
  for (int i = 0; i < 4; ++i) {
    const JsonReport::Result& result = report.results(i);
    EXPECT_EQ(result.layer(), "rpc");
    EXPECT_EQ(result.size_bytes(), i < 2 ? 64u : 4096u);
    EXPECT_EQ(result.outstanding(), i % 2 == 0 ? 1u : 8u);
    EXPECT_GT(result.p50_us(), 0);
    EXPECT_GE(result.p99_us(), result.p50_us());
    EXPECT_GE(result.p999_us(), result.p99_us());
    EXPECT_GT(result.calls_per_s(), 0);
    EXPECT_GT(result.bytes_per_s(), 0);
    EXPECT_EQ(result.errors(), 0u);
  }
  for (const char* field :
       {"device", "layer", "size_bytes", "outstanding", "p50_us", "p99_us",
        "p999_us", "calls_per_s", "bytes_per_s", "errors"}) {
    EXPECT_THAT(ran.output, HasSubstr("\"" + std::string(field) + "\": "));
  }
}

TEST(RpcBenchTest, MeasuresPayloadsOfNothingAndOfManyMegabytes) {
  const Ran ran =
      RunBench({"--size=0,63MiB", "--outstanding=1,2", "--duration=20ms"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors << ran.output;
  EXPECT_THAT(ran.output, Not(HasSubstr("the first:")));
}

TEST(RpcBenchTest, MeasuresTheServerThatItIsGiven) {
  ChildProcess server({bench_path, "--server=" + TestAddress() + ":0"});
  const std::string target = WordAfter("listening on ", server.ReadLine());
  const Ran ran = RunBench({"--target=" + target, "--size=64",
                            "--outstanding=1", "--duration=20ms"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0) << server.errors();

  const Ran gone = RunBench({"--target=" + target, "--json"});
  EXPECT_EQ(gone.exit_code, 1);
  EXPECT_EQ(gone.output, "");
  EXPECT_THAT(gone.errors, HasSubstr("rpc_bench: UNAVAILABLE"));
}

TEST(RpcBenchTest, AServerThatDiesShowsAsErrors) {
  ChildProcess server({bench_path, "--server=" + TestAddress() + ":0"});
  const std::string target = WordAfter("listening on ", server.ReadLine());
  ChildProcess bench({bench_path, "--target=" + target, "--size=64",
                      "--outstanding=1,4", "--duration=1s", "--json"});
  server.Signal(SIGKILL);
  EXPECT_EQ(server.Wait(), -SIGKILL);
  // Either it never connected or at least the second measurement failed.
  EXPECT_EQ(bench.Wait(), 1);
  if (bench.output().empty()) {
    EXPECT_THAT(bench.errors(), HasSubstr("UNAVAILABLE"));
  } else {
    EXPECT_GT(ParseReport(bench.output()).results(1).errors(), 0u);
  }
}

TEST(RpcBenchTest, ItsServerDiesWithIt) {
  ChildProcess bench({bench_path, "--duration=1h"});
  EXPECT_TRUE(HasChild(bench.pid()));
  bench.Signal(SIGKILL);
  // The server inherited standard error: it ends when both are gone.
  EXPECT_EQ(bench.Wait(), -SIGKILL);
}

TEST(RpcBenchTest, RefusesBadFlagsWithExitCode2) {
  const Ran unknown = RunBench({"--speed"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_EQ(unknown.output, "");
  EXPECT_EQ(unknown.errors,
            "rpc_bench: unknown flag --speed; --help lists those there are\n");
  EXPECT_EQ(RunBench({"--outstanding=0"}).exit_code, 2);
  EXPECT_EQ(RunBench({"--size=1GiB"}).exit_code, 2);
}

TEST(RpcBenchTest, SaysThatADeviceIsNotThere) {
  const Ran ran = RunBench({"--device=nonesuch0"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.errors, HasSubstr("no device \"nonesuch0\" on this host"));
}

TEST(RpcBenchTest, HelpListsTheFlags) {
  const Ran ran = RunBench({"--help"});
  EXPECT_EQ(ran.exit_code, 0);
  for (const char* flag : {"--server", "--target", "--size", "--outstanding",
                           "--duration", "--device", "--json"}) {
    EXPECT_THAT(ran.output, HasSubstr(flag));
  }
}

}  // namespace
}  // namespace verbena::bench

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s RPC_BENCH\n", argv[0]);
    return 2;
  }
  verbena::bench::bench_path = argv[1];
  return RUN_ALL_TESTS();
}
