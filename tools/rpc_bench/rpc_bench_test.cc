// rpc_bench as a user runs it.
//
// Argument: its path. Honours VERBENA_DEVICE.

#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "rpc/version.h"
#include "tests/testing/child_process.h"
#include "tools/certificates/certificates.h"
#include "tools/rpc_bench/report.pb.h"

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
Report ParseReport(const std::string& output) {
  Report report;
  const auto status =
      google::protobuf::util::JsonStringToMessage(output, &report);
  EXPECT_TRUE(status.ok()) << status.ToString() << "\n" << output;
  return report;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(RpcBenchTest, MeasuresAServerOfItsOwnAtEveryLayer) {
  const Ran ran = RunBench({"--duration=20ms"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors << ran.output;
  EXPECT_EQ(ran.errors, "");
  EXPECT_THAT(ran.output, HasSubstr("device: "));
  for (const char* text :
       {"1 outstanding", "32 outstanding", " 64 B verbs ", " 4 KiB verbs ",
        " 64 KiB verbs ", " 1 MiB verbs ", " transport ", " rpc ", "p99.9",
        "mean", "ratio", "calls/s", "MB/s", "cpu us", "errors",
        "raw streams"}) {
    EXPECT_THAT(ran.output, HasSubstr(text));
  }
  EXPECT_THAT(ran.output, Not(HasSubstr("the first:")));
}

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

TEST(RpcBenchTest, MeasuresCallsThatAreSealed) {
  const auto authority = certificates::MakeCertificateAuthority();
  ASSERT_TRUE(authority.ok()) << authority.status();
  const auto server = certificates::Issue(
      *authority,
      {.names = {"bench.example"}, .usage = certificates::Usage::kServer});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string folder = testing::TempDir() + "/rpc-bench-";
  WriteFile(folder + "ca.pem", authority->certificate);
  WriteFile(folder + "server.pem", server->certificate);
  WriteFile(folder + "server.key", server->key);
  const std::vector<std::string> flags = {"--layer=rpc",
                                          "--duration=20ms",
                                          "--json",
                                          "--tls-ca=" + folder + "ca.pem",
                                          "--tls-cert=" + folder + "server.pem",
                                          "--tls-key=" + folder + "server.key"};
  std::vector<std::string> right = flags;
  right.push_back("--tls-server-name=bench.example");
  const Ran ran = RunBench(right);
  ASSERT_EQ(ran.exit_code, 0) << ran.errors << ran.output;
  const Report report = ParseReport(ran.output);
  for (const Report::Result& result : report.results()) {
    EXPECT_EQ(result.errors(), 0) << result.first_error();
  }
  // The server has another name than that of its address.
  const Ran refused = RunBench(flags);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.errors, HasSubstr("it is for bench.example"));
}

TEST(RpcBenchTest, MeasuresEachKindInEachForm) {
  for (const std::string kind : {"unary", "client", "server", "bidi"}) {
    for (const std::string api : {"blocking", "callback", "coroutine"}) {
      const Ran ran =
          RunBench({"--kind=" + kind, "--api=" + api, "--layer=rpc",
                    "--size=64,64KiB", "--duration=20ms", "--json"});
      ASSERT_EQ(ran.exit_code, 0) << ran.errors << ran.output;
      const Report report = ParseReport(ran.output);
      ASSERT_EQ(report.results_size(), 4);
      for (const Report::Result& result : report.results()) {
        EXPECT_EQ(result.kind(), kind);
        EXPECT_EQ(result.api(), api);
        EXPECT_GT(result.calls_per_s(), 0);
        EXPECT_EQ(result.errors(), 0) << result.first_error();
      }
    }
  }
}

TEST(RpcBenchTest, MeasuresManyStreamsAtOnce) {
  for (const std::string kind : {"client", "server", "bidi"}) {
    const Ran ran = RunBench({"--kind=" + kind, "--api=callback", "--layer=rpc",
                              "--streams=300", "--size=64,64KiB",
                              "--duration=20ms", "--json"});
    ASSERT_EQ(ran.exit_code, 0) << ran.errors << ran.output;
    const Report report = ParseReport(ran.output);
    ASSERT_EQ(report.results_size(), 2);
    for (const Report::Result& result : report.results()) {
      EXPECT_EQ(result.streams(), 300);
      EXPECT_EQ(result.outstanding(), 300);
      EXPECT_GT(result.calls_per_s(), 0);
      EXPECT_GT(result.least_share(), 0);
      EXPECT_LE(result.least_share(), 1);
      EXPECT_EQ(result.errors(), 0) << result.first_error();
    }
  }
}

TEST(RpcBenchTest, JsonIsOneObjectWithEveryLayerSizeAndDepth) {
  const Ran ran = RunBench({"--size=64,16KiB", "--outstanding=1,8",
                            "--verbs-op=echo", "--duration=20ms", "--json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.errors << ran.output;
  const Report report = ParseReport(ran.output);
  EXPECT_NE(report.device(), "");
  ASSERT_EQ(report.results_size(), 12);
  for (int i = 0; i < 12; ++i) {
    const Report::Result& result = report.results(i);
    EXPECT_EQ(result.layer(), i % 3 == 0   ? "verbs"
                              : i % 3 == 1 ? "transport"
                                           : "rpc");
    EXPECT_EQ(result.op(), "echo");
    EXPECT_EQ(result.mode(), "polled");
    EXPECT_EQ(result.size_bytes(), i < 6 ? 64u : 16384u);
    EXPECT_EQ(result.outstanding(), i % 6 < 3 ? 1u : 8u);
    EXPECT_GT(result.p50_us(), 0);
    EXPECT_GE(result.p90_us(), result.p50_us());
    EXPECT_GE(result.p99_us(), result.p90_us());
    EXPECT_GE(result.p999_us(), result.p99_us());
    EXPECT_GE(result.max_us(), result.p999_us());
    EXPECT_GT(result.mean_us(), 0);
    EXPECT_LE(result.mean_us(), result.max_us());
    EXPECT_GT(result.calls_per_s(), 0);
    EXPECT_GT(result.bytes_per_s(), 0);
    EXPECT_GT(result.cpu_us_per_call(), 0);
    EXPECT_TRUE(result.has_p50_ratio_to_verbs());
    EXPECT_TRUE(result.has_rate_ratio_to_verbs());
    EXPECT_EQ(result.errors(), 0u);
  }
}

TEST(RpcBenchTest, SleepsInsteadOfPollingWhenAsked) {
  const Ran ran = RunBench({"--size=64,16KiB", "--outstanding=1,8", "--events",
                            "--duration=20ms", "--json", "--validate"});
  ASSERT_EQ(ran.exit_code, 0) << ran.errors << ran.output;
  const Report report = ParseReport(ran.output);
  ASSERT_EQ(report.results_size(), 18);
  for (const Report::Result& result : report.results()) {
    EXPECT_EQ(result.mode(), "events");
    EXPECT_EQ(result.errors(), 0u);
  }
}

TEST(RpcBenchTest, KeepsARateAtEveryLayer) {
  // A processor that is away for all of the time leaves nothing to report.
  const Ran ran = RunBench({"--size=64", "--outstanding=1,8", "--rate=1000",
                            "--duration=700ms", "--json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.errors << ran.output;
  const Report report = ParseReport(ran.output);
  ASSERT_EQ(report.results_size(), 6);
  for (const Report::Result& result : report.results()) {
    EXPECT_EQ(result.rate_per_s(), 1000);
    EXPECT_GT(result.calls_per_s(), 0);
    // A processor that was away lets calls start late, but none too many.
    EXPECT_LT(result.calls_per_s(), 2000);
    EXPECT_EQ(result.errors(), 0u);
  }
}

TEST(RpcBenchTest, MeasuresPayloadsOfNothingAndOfManyMegabytes) {
  const Ran ran = RunBench({"--size=0,63MiB", "--outstanding=1,2",
                            "--verbs-op=echo", "--iterations=2"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors << ran.output;
  EXPECT_THAT(ran.output, Not(HasSubstr("the first:")));
}

// The counts of verbs decide what a small call costs on a NIC, so this test
// limits them.
TEST(RpcBenchTest, ASmallCallCostsFewVerbs) {
  const Ran ran =
      RunBench({"--layer=transport,rpc", "--size=64", "--outstanding=1,32",
                "--iterations=20000", "--verbs-count", "--json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.errors << ran.output;
  const Report report = ParseReport(ran.output);
  ASSERT_EQ(report.results_size(), 4);
  for (const Report::Result& result : report.results()) {
    for (const VerbsCost& cost :
         {result.client_verbs(), result.server_verbs()}) {
      SCOPED_TRACE(result.ShortDebugString());
      // Up to eight calls share a SEND. The tolerance of 0.01 is for the
      // connection's other frames, and for the call that asks the server for
      // its counts.
      if (result.outstanding() == 1) {
        EXPECT_NEAR(cost.sends(), 1, 0.01);
      } else {
        EXPECT_LT(cost.sends(), 0.9);
        EXPECT_GE(cost.sends(), 1.0 / 8);
      }
      EXPECT_EQ(cost.reads(), 0);
      EXPECT_EQ(cost.writes(), 0);
      EXPECT_LE(cost.post_recvs(), 1.0 / 8 + 0.001);
      EXPECT_LE(cost.signalled(), 1.0 / 16 + 0.001);
      EXPECT_GT(cost.polls_found(), 0);
      EXPECT_GE(cost.bytes(), 64);
      if (result.outstanding() > 1) {
        EXPECT_LT(cost.post_sends(), 1);
      }
    }
  }
}

TEST(RpcBenchTest, CountsTheVerbsOfEveryLayer) {
  const Ran ran =
      RunBench({"--size=64,64KiB", "--outstanding=4", "--iterations=2000",
                "--verbs-op=echo,write", "--verbs-count"});
  ASSERT_EQ(ran.exit_code, 0) << ran.errors << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("cost in verbs, a call and side"));
  EXPECT_THAT(ran.output, Not(HasSubstr("the first:")));
}

TEST(RpcBenchTest, WritesFilesBesideTheTable) {
  const std::string base = testing::TempDir() + "/rpc_bench_test";
  const Ran ran = RunBench({"--layer=rpc", "--size=64", "--outstanding=1",
                            "--duration=20ms", "--json=" + base + ".json",
                            "--csv=" + base + ".csv"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("calls/s"));
  EXPECT_EQ(ParseReport(ReadFile(base + ".json")).results_size(), 1);
  EXPECT_THAT(ReadFile(base + ".csv"), HasSubstr("\"rpc\",\"echo\","));
  const Ran refused =
      RunBench({"--layer=rpc", "--size=64", "--outstanding=1",
                "--duration=20ms", "--json=/nonesuch/report.json"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.errors, HasSubstr("cannot write /nonesuch/report.json"));
}

TEST(RpcBenchTest, DrawsChartsOrSaysWhatIsMissing) {
  const std::string file = testing::TempDir() + "/rpc_bench_test.svg";
  const Ran ran = RunBench({"--layer=rpc", "--size=64", "--outstanding=1",
                            "--duration=20ms", "--plot=" + file});
  if (ran.exit_code == 0) {
    EXPECT_THAT(ReadFile(file), HasSubstr("</svg>"));
  } else {
    EXPECT_EQ(ran.output, "");
    EXPECT_THAT(ran.errors, HasSubstr("apt-get install gnuplot-nox"));
  }
}

TEST(RpcBenchTest, MeasuresIdleConnections) {
  const Ran ran = RunBench({"--idle", "--events", "--duration=100ms"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("idle on "));
  EXPECT_THAT(ran.output, HasSubstr("(verbs, transport, rpc): client "));
}

TEST(RpcBenchTest, MeasuresSomeOfManyConnections) {
  const Ran ran = RunBench({"--layer=rpc", "--size=64", "--channels=5",
                            "--busy=2", "--api=callback", "--duration=20ms"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors << ran.output;
  EXPECT_EQ(RunBench({"--channels=2", "--busy=3"}).exit_code, 2);
}

TEST(RpcBenchTest, MeasuresTheServerThatItIsGiven) {
  ChildProcess server({bench_path, "--server=" + TestAddress() + ":0"});
  const std::string target = WordAfter("listening on ", server.ReadLine());
  const Ran ran = RunBench({"--target=" + target, "--size=64",
                            "--outstanding=1", "--duration=20ms"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors << ran.output;
  const Ran events = RunBench({"--target=" + target, "--events"});
  EXPECT_EQ(events.exit_code, 1);
  EXPECT_THAT(events.errors, HasSubstr("was started without --events"));
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
                      "--outstanding=1,4", "--layer=rpc", "--duration=1s",
                      "--json"});
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
  EXPECT_TRUE(testing_support::HasChild(bench.pid()));
  bench.Signal(SIGKILL);
  // The server inherited standard error: it ends when both are gone.
  EXPECT_EQ(bench.Wait(), -SIGKILL);
}

TEST(RpcBenchTest, RefusesBadFlagsWithExitCode2) {
  const Ran unknown = RunBench({"--speed"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_EQ(unknown.output, "");
  EXPECT_EQ(unknown.errors,
            "rpc_bench: unknown flag --speed; --help lists all flags\n");
  const auto refusal = [](const std::vector<std::string>& arguments) {
    const Ran ran = RunBench(arguments);
    EXPECT_EQ(ran.exit_code, 2);
    return ran.errors;
  };
  EXPECT_THAT(refusal({"--outstanding=0"}),
              HasSubstr("--outstanding=0: want a number from 1"));
  EXPECT_THAT(refusal({"--iterations=x"}),
              HasSubstr("Illegal value 'x' specified for flag 'iterations'"));
  EXPECT_THAT(refusal({"--layer", "tcp"}),
              HasSubstr("--layer=tcp: want some of verbs,transport,rpc"));
  EXPECT_EQ(refusal({"-h"}),
            "rpc_bench: unknown flag -h; --help lists all flags\n");
  EXPECT_EQ(refusal({"64B"}),
            "rpc_bench: unexpected argument 64B; flags begin with --\n");
  EXPECT_EQ(refusal({"--target", "--json"}),
            "rpc_bench: --target needs a value: --target=...\n");
  EXPECT_EQ(refusal({"--server", "--json"}),
            "rpc_bench: --server and --json exclude one another: a server "
            "measures nothing\n");
  EXPECT_THAT(refusal({"--iterations=5", "--duration=1s"}),
              HasSubstr("each says how long"));
  EXPECT_THAT(refusal({"--duration=soon"}),
              HasSubstr("'soon' specified for flag 'duration'; the flag means: "
                        "how long each measurement takes, as in 500ms or 2s"));
  EXPECT_THAT(refusal({"--duration=2h"}),
              HasSubstr("--duration=2h: want a time from 1ms to 1h"));
  for (const std::string pin : {"--pin=on", "--pin=0,1,2", "--pin=-1"}) {
    EXPECT_THAT(refusal({pin}), HasSubstr(pin + ": want "));
  }
  EXPECT_THAT(refusal({"--kind=both"}), HasSubstr("unary,client,server,bidi"));
  EXPECT_THAT(refusal({"--api=magic"}),
              HasSubstr("blocking,callback,coroutine"));
  EXPECT_THAT(refusal({"--streams=10"}), HasSubstr("a --kind that streams"));
  EXPECT_THAT(refusal({"--kind=bidi", "--streams=1025"}),
              HasSubstr("1 to 1024"));
  EXPECT_THAT(refusal({"--kind=bidi", "--streams=2", "--outstanding=2"}),
              HasSubstr("--streams and --outstanding exclude one another"));
  EXPECT_THAT(refusal({"--kind=bidi", "--rate=100"}),
              HasSubstr("--kind and --rate exclude one another"));
  EXPECT_THAT(refusal({"--rate=0.5"}),
              HasSubstr("--rate=0.5: want calls a second, from 1"));
  EXPECT_THAT(refusal({"--target=10.0.0.7"}),
              HasSubstr("\"10.0.0.7\": the port is missing"));
  EXPECT_THAT(refusal({"--server=10.0.0.7"}),
              HasSubstr("\"10.0.0.7\": the port is missing"));
}

TEST(RpcBenchTest, SaysThatADeviceIsNotThere) {
  const Ran ran = RunBench({"--device=nonesuch0"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.errors, HasSubstr("no device \"nonesuch0\" on this host"));
}

TEST(RpcBenchTest, SaysItsVersion) {
  EXPECT_EQ(RunBench({"--version"}).output,
            absl::StrCat("rpc_bench ", kVersion, "\n"));
}

TEST(RpcBenchTest, HelpListsTheFlags) {
  const Ran ran = RunBench({"--help"});
  EXPECT_EQ(ran.exit_code, 0);
  for (const char* text :
       {"--server\n", "--size (64,4KiB,64KiB,1MiB)\n", "--duration (1s)\n",
        "--continued-max (16KiB)\n", "--layer (verbs,transport,rpc)\n",
        "--target\n", "--json\n      write one JSON object"}) {
    EXPECT_THAT(ran.output, HasSubstr(text));
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
