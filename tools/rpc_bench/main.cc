// rpc_bench: what a call costs. See kAbout, and the flags.

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tools/rpc_bench/bench.h"
#include "tools/rpc_bench/bench_server.h"
#include "tools/rpc_bench/command_line.h"
#include "tools/rpc_bench/flag_values.h"
#include "tools/rpc_bench/host.h"
#include "tools/rpc_bench/plot.h"
#include "tools/rpc_bench/report.h"
#include "tools/rpc_bench/verbs_layer.h"
#include "tools/rpc_bench/workload.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/limits.h"
#include "transport/base/status_macros.h"
#include "transport/device.h"

namespace verbena::bench {
namespace {

constexpr char kAbout[] =
    R"(rpc_bench: what a call costs, in time and in throughput.

Without flags it starts a server process of its own on the best device at hand
and measures echoes of 64 B, 4 KiB, 64 KiB and 1 MiB at three layers: by bare
verbs, over the transport, and by RPC. Latency is that with one call
outstanding, throughput that with 32; ratios are to the verbs layer.

MB/s counts the payload of the requests; as many bytes come back, except in
streams. "cpu us" is the processor time of client and server a call. Percentiles
are at most 0.8 % too high. Exit code 0: measured; 1: no server, or every call
of a measurement failed; 2: bad flags.

Flags, and what they are by default:
)";

constexpr char kAnyAddress[] = "0.0.0.0:50051";
constexpr char kStandardOutput[] = "-";

}  // namespace
}  // namespace verbena::bench

using Texts = std::vector<std::string>;

// Where.
ABSL_FLAG(std::string, target, "",
          "measure the server at this address and port (rpc_bench --server)");
ABSL_FLAG(std::string, server, "",
          "serve, if no address is given on 0.0.0.0:50051, until SIGINT or\n"
          "SIGTERM, and measure nothing; port 0 is any free port");
ABSL_FLAG(std::string, device, "",
          "soft, or the name of an RDMA device; without it, the environment\n"
          "variable VERBENA_DEVICE if it is set");
ABSL_FLAG(std::string, pin, "",
          "processors for client and server, as in 0,1, or off; without it,\n"
          "the first and the last that there are (with --server: one number;\n"
          "without it none)");

// What.
ABSL_FLAG(Texts, layer, Texts({"verbs", "transport", "rpc"}),
          "what to measure");
ABSL_FLAG(Texts, size, Texts({"64", "4KiB", "64KiB", "1MiB"}),
          "payload bytes of a call");
ABSL_FLAG(Texts, outstanding, Texts({"1", "32"}),
          "calls under way at once; at the rpc layer 1 calls in a blocking\n"
          "way, more by callbacks");
ABSL_FLAG(std::string, payload, "",
          "field or attachment: at the rpc layer, in a bytes field of the\n"
          "message or beside it; without it, beside it from 64 KiB on");
ABSL_FLAG(bool, events, false,
          "both sides sleep whenever there is nothing to do, instead of\n"
          "polling; a server needs the flag too");
ABSL_FLAG(std::string, duration, "1s",
          "of each measurement, as in 500ms, 2s or 2");
ABSL_FLAG(uint64_t, iterations, 0,
          "if not 0, measure so many calls, however long they take");
ABSL_FLAG(double, rate, 0,
          "if not 0, open loop: start so many calls a second by the clock,\n"
          "and count latency from when a call was due");
ABSL_FLAG(bool, validate, false,
          "compare the bytes of every echo, each with a number of its own;\n"
          "without it, of the first, and then lengths");
ABSL_FLAG(bool, idle, false,
          "measure no calls, but the processor time that idle connections\n"
          "take");
ABSL_FLAG(bool, verbs_count, false,
          "count what a call asks of the device: work requests, doorbells,\n"
          "signalled completions, polls, arms, bytes, and sleeps; a server\n"
          "needs the flag too");

// The transport layer.
ABSL_FLAG(std::string, continued_max, "16KiB",
          "messages up to so many bytes go as several SENDs when one is too\n"
          "short; 0 for RDMA READ and WRITE; a server needs the flag too");

// The verbs layer.
ABSL_FLAG(Texts, verbs_op, Texts({"echo", "write", "read", "send"}),
          "echo, and one-way streams of the verbs layer");
ABSL_FLAG(std::string, bulk_threshold, "8KiB",
          "larger echoes of the verbs layer move by RDMA READ and WRITE");
ABSL_FLAG(std::string, rx_depth, "", "verbs layer: receives kept posted");
ABSL_FLAG(std::string, inline, "",
          "verbs layer: largest message that is posted inline");
ABSL_FLAG(std::string, ib_port, "",
          "verbs layer: fail if the connection manager has chosen another,\n"
          "by the route to the server: it takes no wishes");
ABSL_FLAG(std::string, gid_index, "", "verbs layer: as --ib-port");
ABSL_FLAG(std::string, mtu, "", "verbs layer: as --ib-port");

// Output.
ABSL_FLAG(std::string, json, "",
          "one JSON object, to a file beside the table, or without a value to\n"
          "standard output instead of it");
ABSL_FLAG(std::string, csv, "", "a line for each result, as --json");
ABSL_FLAG(std::string, plot, "", "charts, to this SVG file; needs gnuplot");
ABSL_FLAG(bool, help, false, "this text");

namespace verbena::bench {
namespace {

// With a few bytes around it, still a message that channels and servers take
// with their default limits.
constexpr uint64_t kMaxSizeBytes = (uint64_t{64} << 20) - 64;

constexpr int kMeasured = 0;
constexpr int kFailed = 1;
constexpr int kBadFlags = 2;

using Given = std::set<std::string, std::less<>>;

// Those that mean something to a server; the others say how to measure.
const Given& ServerFlags() {
  static const Given* const flags =
      new Given{"continued_max", "device", "events",     "help",
                "pin",           "server", "verbs_count"};
  return *flags;
}

absl::Status CheckTogether(const Given& given) {
  const auto refuse = [](absl::string_view one, absl::string_view other,
                         absl::string_view reason) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--", one, " and --", other, " exclude one another: ", reason));
  };
  if (given.contains("iterations") && given.contains("duration")) {
    return refuse("iterations", "duration", "each says how long");
  }
  if (!given.contains("server")) return absl::OkStatus();
  for (const std::string& flag : given) {
    if (!ServerFlags().contains(flag)) {
      return refuse("server", flag, "a server measures nothing");
    }
  }
  return absl::OkStatus();
}

Op OpOf(absl::string_view name) {
  for (Op op : {Op::kSend, Op::kWrite, Op::kRead}) {
    if (name == OpName(op)) return op;
  }
  return Op::kEcho;
}

std::string WantedDevice() {
  transport::EndpointOptions wanted;
  wanted.device = absl::GetFlag(FLAGS_device);
  return transport::WantedDevice(wanted);
}

absl::StatusOr<uint64_t> ContinuedMaxBytes() {
  return ReadBytes("continued-max", absl::GetFlag(FLAGS_continued_max),
                   transport::kContinuedBytesMax);
}

// A number from `min` to `max`, or what `number` is already if the flag is not
// given.
template <typename T>
absl::Status ReadIfGiven(absl::string_view name, const std::string& text,
                         int min, int max, T& number) {
  if (text.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(number, ReadNumber(name, text, min, max));
  return absl::OkStatus();
}

absl::Status ReadVerbsFlags(VerbsOptions& verbs) {
  verbs.events = absl::GetFlag(FLAGS_events);
  ASSIGN_OR_RETURN(
      verbs.bulk_threshold_bytes,
      ReadBytes("bulk-threshold", absl::GetFlag(FLAGS_bulk_threshold),
                kMaxSizeBytes));
  RETURN_IF_ERROR(ReadIfGiven("rx-depth", absl::GetFlag(FLAGS_rx_depth), 2,
                              16384, verbs.receive_depth));
  const std::string inline_bytes = absl::GetFlag(FLAGS_inline);
  verbs.inline_required = !inline_bytes.empty();
  RETURN_IF_ERROR(
      ReadIfGiven("inline", inline_bytes, 0, 4096, verbs.inline_bytes));
  RETURN_IF_ERROR(ReadIfGiven("ib-port", absl::GetFlag(FLAGS_ib_port), 1, 254,
                              verbs.ib_port));
  RETURN_IF_ERROR(ReadIfGiven("gid-index", absl::GetFlag(FLAGS_gid_index), 0,
                              255, verbs.gid_index));
  const std::string mtu = absl::GetFlag(FLAGS_mtu);
  if (mtu.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckWords("mtu", {mtu}, "256,512,1024,2048,4096"));
  return ReadIfGiven("mtu", mtu, 256, 4096, verbs.mtu_bytes);
}

absl::StatusOr<Options> OptionsFromFlags() {
  Options options;
  options.target = absl::GetFlag(FLAGS_target);
  if (!options.target.empty()) {
    RETURN_IF_ERROR(CheckAddress("target", options.target, 1));
  }
  options.device = WantedDevice();
  options.layers = absl::GetFlag(FLAGS_layer);
  RETURN_IF_ERROR(CheckWords("layer", options.layers, "verbs,transport,rpc"));
  for (const std::string& size : absl::GetFlag(FLAGS_size)) {
    ASSIGN_OR_RETURN(options.sizes_bytes.emplace_back(),
                     ReadBytes("size", size, kMaxSizeBytes));
  }
  for (const std::string& depth : absl::GetFlag(FLAGS_outstanding)) {
    ASSIGN_OR_RETURN(options.outstanding.emplace_back(),
                     ReadNumber("outstanding", depth, 1, 1024));
  }
  options.payload = absl::GetFlag(FLAGS_payload);
  if (!options.payload.empty()) {
    RETURN_IF_ERROR(
        CheckWords("payload", {options.payload}, "field,attachment"));
  }
  ASSIGN_OR_RETURN(options.duration,
                   ReadTime("duration", absl::GetFlag(FLAGS_duration)));
  options.iterations = absl::GetFlag(FLAGS_iterations);
  options.rate_per_s = absl::GetFlag(FLAGS_rate);
  if (options.rate_per_s != 0 &&
      !(options.rate_per_s >= 1 && options.rate_per_s <= 1e9)) {
    return WrongFlag("rate", options.rate_per_s,
                     "calls a second, from 1 to 1e9");
  }
  options.validate = absl::GetFlag(FLAGS_validate);
  options.events = absl::GetFlag(FLAGS_events);
  options.verbs_count = absl::GetFlag(FLAGS_verbs_count);
  ASSIGN_OR_RETURN(options.pinning,
                   ReadPinning("pin", absl::GetFlag(FLAGS_pin)));
  ASSIGN_OR_RETURN(options.continued_max_bytes, ContinuedMaxBytes());
  const std::vector<std::string> ops = absl::GetFlag(FLAGS_verbs_op);
  RETURN_IF_ERROR(CheckWords("verbs-op", ops, "echo,send,write,read"));
  for (const std::string& op : ops) options.verbs_ops.push_back(OpOf(op));
  RETURN_IF_ERROR(ReadVerbsFlags(options.verbs));
  return options;
}

absl::StatusOr<Options> ReadFlags(absl::Span<const char* const> arguments) {
  ASSIGN_OR_RETURN(const Given given,
                   SetFlags(arguments, {{"csv", kStandardOutput},
                                        {"json", kStandardOutput},
                                        {"server", kAnyAddress}}));
  RETURN_IF_ERROR(CheckTogether(given));
  if (given.contains("server")) {
    RETURN_IF_ERROR(CheckAddress("server", absl::GetFlag(FLAGS_server), 0));
  }
  return OptionsFromFlags();
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  if (file.good()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cannot write ", path));
}

// Writes `text` to the file `output`, or to standard output, or nowhere.
absl::Status Write(const std::string& output, const std::string& text) {
  if (output.empty()) return absl::OkStatus();
  if (output != kStandardOutput) return WriteFile(output, text);
  std::cout << text << std::flush;
  return absl::OkStatus();
}

absl::Status Print(const Options& options, const Measurements& measured) {
  const std::string json = absl::GetFlag(FLAGS_json);
  const std::string csv = absl::GetFlag(FLAGS_csv);
  if (json != kStandardOutput && csv != kStandardOutput) {
    std::cout << Table(measured.report) << std::flush;
  }
  RETURN_IF_ERROR(Write(json, Json(measured.report)));
  RETURN_IF_ERROR(Write(csv, Csv(measured.report)));
  const std::string plot = absl::GetFlag(FLAGS_plot);
  if (plot.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(WriteFile(plot, ""));
  return RunGnuplot(PlotScript(measured.outcomes, measured.report,
                               {{transport::kBufferBytes, "continued"},
                                {options.continued_max_bytes, "rendezvous"}},
                               plot));
}

absl::StatusOr<int> Measure(const Options& options) {
  // Not when all is measured.
  if (!absl::GetFlag(FLAGS_plot).empty()) RETURN_IF_ERROR(CheckGnuplot());
  ASSIGN_OR_RETURN(const std::unique_ptr<Bench> bench, Bench::Start(options));
  if (absl::GetFlag(FLAGS_idle)) {
    ASSIGN_OR_RETURN(const std::string line, bench->MeasureIdle());
    std::cout << line << std::flush;
    return kMeasured;
  }
  ASSIGN_OR_RETURN(const Measurements measured, bench->Measure());
  RETURN_IF_ERROR(Print(options, measured));
  const auto& results = measured.report.results();
  const bool all_measured = std::all_of(
      results.begin(), results.end(),
      [](const Report::Result& result) { return result.has_p50_us(); });
  return all_measured ? kMeasured : kFailed;
}

absl::StatusOr<int> RunServer(const Options& options) {
  BenchServerOptions server;
  server.address = absl::GetFlag(FLAGS_server);
  server.device = options.device;
  server.events = options.events;
  server.verbs_count = options.verbs_count;
  server.continued_max_bytes =
      static_cast<uint32_t>(options.continued_max_bytes);
  server.pinned_to = options.pinning.server;
  if (server.pinned_to >= 0) RETURN_IF_ERROR(PinTo(server.pinned_to));
  RETURN_IF_ERROR(Serve(server));
  return kMeasured;
}

int Main(absl::Span<const char* const> arguments) {
  const absl::StatusOr<Options> options = ReadFlags(arguments);
  if (!options.ok()) {
    std::cerr << "rpc_bench: " << options.status().message() << std::endl;
    return kBadFlags;
  }
  if (absl::GetFlag(FLAGS_help)) {
    std::cout << kAbout << FlagsHelp();
    return kMeasured;
  }
  const bool serves = !absl::GetFlag(FLAGS_server).empty();
  const absl::StatusOr<int> exit_code =
      serves ? RunServer(*options) : Measure(*options);
  if (exit_code.ok()) return *exit_code;
  std::cerr << "rpc_bench: " << (serves ? "cannot serve: " : "")
            << exit_code.status() << std::endl;
  return kFailed;
}

}  // namespace
}  // namespace verbena::bench

int main(int argc, char** argv) {
  return verbena::bench::Main(
      absl::MakeConstSpan(argv + 1, static_cast<size_t>(argc - 1)));
}
