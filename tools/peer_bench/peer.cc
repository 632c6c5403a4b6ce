#include "tools/peer_bench/peer.h"

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "tools/child/server_child.h"
#include "tools/command_line/flag_values.h"
#include "tools/command_line/parse_flags.h"
#include "tools/json/proto_json.h"
#include "tools/load/callers.h"
#include "tools/load/workload.h"
#include "tools/peer_bench/peer_report.pb.h"
#include "tools/peer_bench/usage.h"
#include "transport/base/status_macros.h"

ABSL_FLAG(std::string, server, "",
          "the kind of server; default: the first of those listed above");
ABSL_FLAG(std::string, address, "127.0.0.1:0",
          "where the server listens; port 0 takes any free one");
ABSL_FLAG(
    std::string, target, "",
    "the address of another server to call, for example through a gateway; the "
    "figures of \"server\" are then those of an idle process");
ABSL_FLAG(int, callers, 1, "threads that make blocking calls");
ABSL_FLAG(int, channels, 1, "channels over which the callers are spread");
ABSL_FLAG(std::string, kind, "unary",
          "unary: echoes by calls; bidi: echoes by messages of a stream; "
          "server: messages of a stream to the client only (the last two if "
          "the kind of server has streams)");
ABSL_FLAG(double, rate, 0,
          "calls a second that all callers together start by the clock; 0: "
          "back to back");
ABSL_FLAG(absl::Duration, duration, absl::Seconds(1), "how long to count");
ABSL_FLAG(absl::Duration, warm_up, absl::Milliseconds(300),
          "how long to call before counting begins");
ABSL_FLAG(int, size, 64, "bytes of payload");
ABSL_FLAG(std::string, server_netns, "",
          "the network name space of `ip netns` in which the server runs; "
          "default: that of the client");
ABSL_FLAG(bool, serve, false,
          "run as the server process; the program sets this itself");

namespace verbena::peers {
namespace {

constexpr char kAbout[] =
    R"( measures echoes between two processes.

Prints one object of JSON. Times and context switches of "client" and "server"
are those of a call. "shares" are the parts of all calls that single callers
made. Exit code 0: measured; 1: not measured; 2: bad flags.

  --server=)";

constexpr int kManyCallers = 1024;
constexpr double kHighestRate = 1e6;

constexpr absl::Duration kStartTimeout = absl::Minutes(1);

// Checks the server first, because it decides which kinds there are.
absl::Status CheckFlags(const Peer& peer) {
  const std::string server = absl::GetFlag(FLAGS_server);
  RETURN_IF_ERROR(
      tool::CheckWords("server", {server}, absl::StrJoin(peer.servers(), ",")));
  RETURN_IF_ERROR(tool::CheckWords("kind", {absl::GetFlag(FLAGS_kind)},
                                   absl::StrJoin(peer.kinds(server), ",")));
  RETURN_IF_ERROR(tool::CheckNumber("callers", absl::GetFlag(FLAGS_callers), 1,
                                    kManyCallers));
  RETURN_IF_ERROR(tool::CheckNumber("channels", absl::GetFlag(FLAGS_channels),
                                    1, absl::GetFlag(FLAGS_callers)));
  RETURN_IF_ERROR(
      tool::CheckNumber("rate", absl::GetFlag(FLAGS_rate), 0, kHighestRate));
  RETURN_IF_ERROR(tool::CheckNumber("size", absl::GetFlag(FLAGS_size), 0,
                                    peer.largest_payload()));
  RETURN_IF_ERROR(tool::CheckTime("warm-up", absl::GetFlag(FLAGS_warm_up),
                                  absl::ZeroDuration(), absl::Hours(1)));
  return tool::CheckTime("duration", absl::GetFlag(FLAGS_duration),
                         absl::Milliseconds(1), absl::Hours(1));
}

// Divides what one side has used by the number of calls.
void SetUsage(const Usage& used, double calls, PeerReport::Usage* report) {
  report->set_cpu_us(
      bench::Rounded(static_cast<double>(used.cpu_ns) / 1e3 / calls, 1e4));
  report->set_voluntary(
      bench::Rounded(static_cast<double>(used.voluntary) / calls, 1e4));
  report->set_involuntary(
      bench::Rounded(static_cast<double>(used.involuntary) / calls, 1e4));
}

// Shares are of all calls that counted. `callers` is sorted, so its ends are
// the extremes.
PeerReport ReportOf(const bench::Sample& sample, const Usage& client,
                    const Usage& server) {
  PeerReport report;
  const auto calls = static_cast<double>(sample.latencies.count());
  const std::vector<uint64_t>& callers = sample.calls_of_callers;
  const auto share = [&](uint64_t calls_of_caller) {
    return bench::Rounded(static_cast<double>(calls_of_caller) / calls, 1e4);
  };
  report.set_calls(calls);
  report.set_calls_per_s(bench::Rounded(sample.calls_per_s, 100));
  report.set_late(static_cast<double>(sample.late));
  bench::SetLatencies(sample.latencies, report);
  report.mutable_shares()->set_slowest(share(callers.front()));
  report.mutable_shares()->set_median(share(callers[callers.size() / 2]));
  report.mutable_shares()->set_fastest(share(callers.back()));
  SetUsage(client, calls, report.mutable_client());
  SetUsage(server, calls, report.mutable_server());
  return report;
}

// Runs this program again as the server and connects the callers. The usage of
// both processes is read where the counted time begins and ends.
absl::StatusOr<std::string> Measure(char** argv, Peer& peer) {
  // The server gets the flags of this run, so that both processes agree on its
  // kind.
  std::vector<std::string> command;
  const std::string netns = absl::GetFlag(FLAGS_server_netns);
  if (!netns.empty()) command = {"ip", "netns", "exec", netns};
  // By its name, because `ip` is to run it.
  command.push_back(std::filesystem::read_symlink("/proc/self/exe"));
  while (*++argv != nullptr) command.emplace_back(*argv);
  command.emplace_back("--serve");
  ASSIGN_OR_RETURN(const std::unique_ptr<tools::ServerChild> server,
                   tools::ServerChild::Start(command, kStartTimeout));
  const CallersOptions callers_options = {
      .callers = absl::GetFlag(FLAGS_callers),
      .channels = absl::GetFlag(FLAGS_channels),
      .kind = absl::GetFlag(FLAGS_kind),
      .payload =
          std::string(static_cast<size_t>(absl::GetFlag(FLAGS_size)), 'x')};
  const std::string target = absl::GetFlag(FLAGS_target);
  ASSIGN_OR_RETURN(const std::vector<BlockingCall> callers,
                   peer.Connect(target.empty() ? server->address() : target,
                                callers_options));
  // Each caller makes a first call, so that connecting is not measured.
  for (const BlockingCall& call : callers) RETURN_IF_ERROR(call());

  Usage client_before;
  Usage client_after;
  absl::StatusOr<Usage> server_before;
  absl::StatusOr<Usage> server_after;
  const bench::Sample sample = bench::RunCallers(
      callers,
      {.rate_per_s = absl::GetFlag(FLAGS_rate),
       .warm_up = absl::GetFlag(FLAGS_warm_up)},
      absl::GetFlag(FLAGS_duration),
      [&] {
        client_before = OwnUsage();
        server_before = UsageOf(server->process());
      },
      [&] {
        client_after = OwnUsage();
        server_after = UsageOf(server->process());
      });
  RETURN_IF_ERROR(sample.first_error);
  // Only now, because RunCallers() has no way to return them.
  RETURN_IF_ERROR(server_before.status());
  RETURN_IF_ERROR(server_after.status());
  // Shares and usage are divided by the number of calls.
  if (sample.latencies.count() == 0) {
    return absl::DeadlineExceededError(
        "not one call began in --duration: make it longer");
  }
  return tool::ToJson(ReportOf(sample, client_after - client_before,
                               *server_after - *server_before));
}

// Prints where it listens, and then answers the client's questions until that
// ends.
absl::Status Serve(Peer& peer) {
  const std::string server = absl::GetFlag(FLAGS_server);
  ASSIGN_OR_RETURN(const std::string address,
                   peer.Serve(server, absl::GetFlag(FLAGS_address)));
  std::cout << tools::ListeningLine(address, server) << std::endl;
  AnswerQuestions();
  return absl::OkStatus();
}

}  // namespace

// The process with --serve is the child that Measure() starts. All other runs
// measure.
int RunPeer(int argc, char** argv, Peer& peer) {
  const std::vector<std::string> servers = peer.servers();
  tool::ReadCommandLine(
      argc, argv,
      {.name = argv[0],
       .about = absl::StrCat(kAbout, absl::StrJoin(servers, "|"), "\n")});
  if (absl::GetFlag(FLAGS_server).empty()) {
    absl::SetFlag(&FLAGS_server, servers.front());
  }
  const absl::Status flags = CheckFlags(peer);
  if (!flags.ok()) {
    std::cerr << argv[0] << ": " << flags.message() << std::endl;
    return tool::kWrongCommandLine;
  }

  if (absl::GetFlag(FLAGS_serve)) {
    const absl::Status served = Serve(peer);
    if (!served.ok()) std::cerr << "cannot serve: " << served << std::endl;
    // Exits without destructors, because threads still serve.
    _exit(served.ok() ? 0 : 1);
  }
  const absl::StatusOr<std::string> json = Measure(argv, peer);
  if (!json.ok()) {
    std::cerr << "cannot measure: " << json.status() << std::endl;
    return 1;
  }
  std::cout << *json << std::endl;
  return 0;
}

}  // namespace verbena::peers
