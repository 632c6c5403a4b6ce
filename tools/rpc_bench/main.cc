// rpc_bench: what a call costs. See kAbout, and the flags.

#include <cstdint>
#include <fstream>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tools/command_line/flag_values.h"
#include "tools/command_line/parse_flags.h"
#include "tools/command_line/tls_flags.h"
#include "tools/load/workload.h"
#include "tools/rpc_bench/bench.h"
#include "tools/rpc_bench/report.h"
#include "transport/base/limits.h"
#include "transport/base/status_macros.h"
#include "transport/device.h"

using Texts = std::vector<std::string>;

// The two sides: addresses, device and processors.
ABSL_FLAG(std::string, target, "",
          "measure the server at this address and port, which runs\n"
          "rpc_bench --server");
ABSL_FLAG(std::string, server, "",
          "serve at this address (without one, 0.0.0.0:50051) until SIGINT or\n"
          "SIGTERM, and measure nothing; port 0 takes any free one");
ABSL_FLAG(std::string, device, "",
          "soft, or the name of an RDMA device; default: the environment\n"
          "variable VERBENA_DEVICE, or the best device");
ABSL_FLAG(std::string, pin, "",
          "the processors of client and server, as in 0,1; off: any; default:\n"
          "the first and the last processor. With --server one number;\n"
          "default: any");

// The cases to measure.
ABSL_FLAG(Texts, layer, Texts({"verbs", "transport", "rpc"}),
          "what to measure");
ABSL_FLAG(Texts, size, Texts({"64", "4KiB", "64KiB", "1MiB"}),
          "payload bytes of a call");
ABSL_FLAG(Texts, outstanding, Texts({"1", "32"}),
          "calls in progress at once; at the rpc layer 1 is a blocking call,\n"
          "and more are calls with callbacks");
ABSL_FLAG(std::string, payload, "",
          "field or attachment: where the rpc layer has the payload, in a\n"
          "bytes field of the message or beside it; default: attachment from\n"
          "64 KiB on");
ABSL_FLAG(std::string, kind, "unary",
          "unary: calls; at the rpc layer also one stream: bidi echoes its\n"
          "messages, client and server send messages one way, with ratios\n"
          "to bare SENDs. The table then counts messages as calls");
ABSL_FLAG(int, streams, 0,
          "if not 0, use this many streams of --kind at once, each with one\n"
          "message in progress, instead of --outstanding; more than 200 need\n"
          "--api=callback or coroutine");
ABSL_FLAG(std::string, api, "blocking",
          "blocking, callback or coroutine: how handlers and unary calls are\n"
          "written; with more than one outstanding, blocking calls are made\n"
          "with callbacks. A server needs the flag too");
ABSL_FLAG(bool, inline_callbacks, false,
          "set ChannelOptions::inline_callbacks: callbacks and coroutines\n"
          "run where the reply is parsed");
ABSL_FLAG(int, max_paths, 0, "set ChannelOptions::max_paths");
ABSL_FLAG(std::string, service_config, "",
          "set ChannelOptions::service_config, in JSON; --target may then name "
          "a service, such as ipv4:10.0.0.1:7471,10.0.0.2:7471");
ABSL_FLAG(bool, events, false,
          "both sides sleep whenever there is nothing to do, instead of\n"
          "polling; a server needs the flag too");
ABSL_FLAG(absl::Duration, duration, absl::Seconds(1),
          "how long each measurement takes, as in 500ms or 2s");
ABSL_FLAG(uint64_t, iterations, 0,
          "if not 0, measure this many calls, however long they take");
ABSL_FLAG(double, rate, 0,
          "if not 0, open loop: start this many calls a second by the clock,\n"
          "and count latency from when a call was due");
ABSL_FLAG(bool, validate, false,
          "give every message a number, and compare all bytes of each echo;\n"
          "default: compare the first echo, and the lengths of the others");
ABSL_FLAG(bool, idle, false,
          "measure the processor time that idle connections take, and no\n"
          "calls");
ABSL_FLAG(bool, verbs_count, false,
          "count what a call asks of the device: work requests, doorbells,\n"
          "signalled completions, polls, arms, bytes, and sleeps; a server\n"
          "needs the flag too");

// The transport layer.
ABSL_FLAG(std::string, continued_max, "16KiB",
          "messages of up to this size that do not fit one SEND go as\n"
          "several; 0: such messages go by RDMA READ and WRITE. A server\n"
          "needs the flag too");

// The verbs layer.
ABSL_FLAG(Texts, verbs_op, Texts({"echo", "write", "read", "send"}),
          "what the verbs layer measures: echoes, and one-way streams of the\n"
          "other three");

// Output.
ABSL_FLAG(std::string, json, "",
          "write one JSON object to this file, in addition to the table;\n"
          "without a value, to standard output instead of the table");
ABSL_FLAG(std::string, csv, "",
          "write a line of CSV for each result to this file, in addition to\n"
          "the table; without a value, to standard output");
ABSL_FLAG(std::string, plot, "",
          "draw charts into this SVG file; needs gnuplot");

// The connections.
ABSL_FLAG(bool, checksum, false,
          "use checksums at the layers transport and rpc");
ABSL_FLAG(int, channels, 1,
          "connections of the layer rpc; unary calls go over --busy of them\n"
          "by turns, and the others are idle");
ABSL_FLAG(int, busy, 1, "see --channels");
ABSL_FLAG(bool, trains, true,
          "let small calls of the layer transport that are ready together\n"
          "travel in one SEND; the layer rpc always does");
ABSL_FLAG(bool, revoke_leases, false,
          "set ChannelOptions::revoke_leases at these layers: after a reply,\n"
          "the server loses its right to write to the client's memory");

namespace verbena::bench {
namespace {

using tool::CheckTime;
using tool::CheckWords;
using tool::ReadBytes;
using tool::ReadNumber;
using tool::WrongFlag;

constexpr char kAbout[] =
    R"(: what a call costs, in time and in throughput.

Without flags it starts a server process on the best device of this machine, and
measures echoes of 64 B, 4 KiB, 64 KiB and 1 MiB at three layers: by bare verbs,
over the transport, and by RPC. Latency is that of one call outstanding,
throughput that of 32; ratios are to the verbs layer.

MB/s counts the payload of the requests; as many bytes come back, except in
streams. "cpu us" is the processor time of client and server for each call.
Percentiles are at most 0.8 % too high, and the mean is off by at most 0.4 %.
Exit status: 0 measured; 1 no server, or every call of a measurement failed; 2
bad flags.
)";

constexpr char kAnyAddress[] = "0.0.0.0:50051";
constexpr char kStandardOutput[] = "-";

// The longest payload that channels and servers accept by default, in a message
// that has a few bytes more than the payload.
constexpr uint64_t kMaxSizeBytes = (uint64_t{64} << 20) - 64;

// The most of --channels.
constexpr int kMaxChannels = 10000;

constexpr int kMeasured = 0;
constexpr int kFailed = 1;

// Flags that a server may be given. The others say how to measure.
constexpr absl::string_view kServerFlags[] = {
    "api",    "continued_max", "device",   "events",  "pin",
    "server", "tls_ca",        "tls_cert", "tls_key", "verbs_count"};

// Refuses flags that contradict each other.
absl::Status CheckTogether(const std::set<std::string>& given) {
  if (given.contains("iterations") && given.contains("duration")) {
    return absl::InvalidArgumentError(
        "--iterations and --duration exclude one another: each says how long");
  }
  if (given.contains("kind") && given.contains("rate")) {
    return absl::InvalidArgumentError(
        "--kind and --rate exclude one another: streams are closed loops");
  }
  for (const char* other : {"outstanding", "validate"}) {
    if (given.contains("streams") && given.contains(other)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--streams and --", other, " exclude one another"));
    }
  }
  for (const std::string& flag : given) {
    if (given.contains("server") &&
        !absl::c_linear_search(kServerFlags, flag)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--server and --", flag,
                       " exclude one another: a server measures nothing"));
    }
  }
  return absl::OkStatus();
}

// Reads --pin: "off", the processors of both sides as in "0,1", or one for
// both. If it is empty, the processors are those that suit the machine.
absl::StatusOr<Pinning> ReadPinning() {
  constexpr int kMaxProcessor = 1023;
  const std::string text = absl::GetFlag(FLAGS_pin);
  Pinning pinning;
  pinning.on = text != "off";
  if (text.empty() || !pinning.on) return pinning;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  if (parts.size() > 2) {
    return WrongFlag("pin", text, "off, or the processors of both sides");
  }
  ASSIGN_OR_RETURN(pinning.client,
                   ReadNumber("pin", parts.front(), 0, kMaxProcessor));
  ASSIGN_OR_RETURN(pinning.server,
                   ReadNumber("pin", parts.back(), 0, kMaxProcessor));
  return pinning;
}

// Reads the flags of an endpoint whose values have no bounds.
void ReadEndpointFlags(transport::EndpointOptions* endpoint) {
  endpoint->device = absl::GetFlag(FLAGS_device);
  endpoint->device = transport::WantedDevice(*endpoint);
  endpoint->checksum = absl::GetFlag(FLAGS_checksum);
  endpoint->revoke_leases = absl::GetFlag(FLAGS_revoke_leases);
  endpoint->trains = absl::GetFlag(FLAGS_trains);
}

absl::Status ReadCrowd(Options* options) {
  ASSIGN_OR_RETURN(
      options->channels,
      ReadNumber("channels", absl::StrCat(absl::GetFlag(FLAGS_channels)), 1,
                 kMaxChannels));
  ASSIGN_OR_RETURN(options->busy,
                   ReadNumber("busy", absl::StrCat(absl::GetFlag(FLAGS_busy)),
                              1, options->channels));
  return absl::OkStatus();
}

// Returns the options that the flags give, or INVALID_ARGUMENT for a value out
// of its bounds.
absl::StatusOr<Options> ReadFlags() {
  Options options = {
      .target = absl::GetFlag(FLAGS_target),
      .layers = absl::GetFlag(FLAGS_layer),
      .payload = absl::GetFlag(FLAGS_payload),
      .measured = {.validate = absl::GetFlag(FLAGS_validate),
                   .rate_per_s = absl::GetFlag(FLAGS_rate),
                   .iterations = absl::GetFlag(FLAGS_iterations)},
      .duration = absl::GetFlag(FLAGS_duration),
      .events = absl::GetFlag(FLAGS_events),
      .verbs_count = absl::GetFlag(FLAGS_verbs_count)};
  ReadEndpointFlags(&options.endpoint);
  options.tls = tool::TlsFilesOfFlags();
  options.inline_callbacks = absl::GetFlag(FLAGS_inline_callbacks);
  options.max_paths = absl::GetFlag(FLAGS_max_paths);
  options.service_config = absl::GetFlag(FLAGS_service_config);
  if (options.events) options.endpoint.spin_budget = absl::ZeroDuration();
  RETURN_IF_ERROR(CheckWords("layer", options.layers, "verbs,transport,rpc"));
  for (const std::string& size : absl::GetFlag(FLAGS_size)) {
    ASSIGN_OR_RETURN(options.sizes_bytes.emplace_back(),
                     ReadBytes("size", size, kMaxSizeBytes));
  }
  for (const std::string& depth : absl::GetFlag(FLAGS_outstanding)) {
    ASSIGN_OR_RETURN(options.outstanding.emplace_back(),
                     ReadNumber("outstanding", depth, 1, 1024));
  }
  if (!options.payload.empty()) {
    RETURN_IF_ERROR(
        CheckWords("payload", {options.payload}, "field,attachment"));
  }
  RETURN_IF_ERROR(CheckTime("duration", options.duration, absl::Milliseconds(1),
                            absl::Hours(1)));
  const std::string kind = absl::GetFlag(FLAGS_kind);
  RETURN_IF_ERROR(CheckWords("kind", {kind}, "unary,client,server,bidi"));
  options.measured.kind =
      static_cast<Kind>(absl::c_find(kKindNames, kind) - kKindNames);
  const std::string api = absl::GetFlag(FLAGS_api);
  RETURN_IF_ERROR(CheckWords("api", {api}, "blocking,callback,coroutine"));
  options.measured.api =
      static_cast<Api>(absl::c_find(kApiNames, api) - kApiNames);
  if (const int streams = absl::GetFlag(FLAGS_streams); streams != 0) {
    if (streams < 0 || streams > kMaxStreams || kind == "unary") {
      return WrongFlag(
          "streams", streams,
          absl::StrCat("1 to ", kMaxStreams, ", and a --kind that streams"));
    }
    options.measured.streams = streams;
    options.outstanding = {streams};
  }
  RETURN_IF_ERROR(ReadCrowd(&options));
  const double rate = options.measured.rate_per_s;
  if (rate != 0 && !(rate >= 1 && rate <= 1e9)) {
    return WrongFlag("rate", rate, "calls a second, from 1 to 1e9");
  }
  ASSIGN_OR_RETURN(options.pinning, ReadPinning());
  ASSIGN_OR_RETURN(
      const uint64_t continued_max,
      ReadBytes("continued-max", absl::GetFlag(FLAGS_continued_max),
                transport::kContinuedBytesMax));
  options.endpoint.continued_bytes_max = static_cast<uint32_t>(continued_max);
  const std::vector<std::string> ops = absl::GetFlag(FLAGS_verbs_op);
  RETURN_IF_ERROR(CheckWords("verbs-op", ops, "echo,send,write,read"));
  for (const std::string& op : ops) {
    options.verbs_ops.push_back(
        static_cast<Op>(absl::c_find(kOpNames, op) - kOpNames));
  }
  return options;
}

// Writes `text` to the file `output`, or to standard output, or nowhere.
absl::Status Write(const std::string& output, const std::string& text) {
  if (output.empty()) return absl::OkStatus();
  std::ofstream file;
  if (output != kStandardOutput) file.open(output);
  std::ostream& out = output == kStandardOutput ? std::cout : file;
  out << text << std::flush;
  if (out.good()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write ", output));
}

// Prints the table unless another form goes to standard output.
absl::Status Print(const Options& options, const Report& report) {
  const std::string json = absl::GetFlag(FLAGS_json);
  const std::string csv = absl::GetFlag(FLAGS_csv);
  if (json != kStandardOutput && csv != kStandardOutput) {
    std::cout << Table(report) << std::flush;
  }
  RETURN_IF_ERROR(Write(json, Json(report)));
  RETURN_IF_ERROR(Write(csv, Csv(report)));
  const std::string plot = absl::GetFlag(FLAGS_plot);
  if (plot.empty()) return absl::OkStatus();
  // Empties the file first, so that one that can't be written is noticed.
  RETURN_IF_ERROR(Write(plot, ""));
  return RunGnuplot(
      PlotScript(report,
                 {{transport::kBufferBytes, "continued"},
                  {options.endpoint.continued_bytes_max, "rendezvous"}},
                 plot));
}

// Counts as failed if any case has no call that succeeded.
absl::StatusOr<int> MeasureAndPrint(const Options& options) {
  // Reports a missing gnuplot now, and not after all measurements.
  if (!absl::GetFlag(FLAGS_plot).empty()) RETURN_IF_ERROR(CheckGnuplot());
  if (absl::GetFlag(FLAGS_idle)) {
    ASSIGN_OR_RETURN(const std::string line, MeasureIdle(options));
    std::cout << line << std::flush;
    return kMeasured;
  }
  ASSIGN_OR_RETURN(const Report report, Measure(options));
  RETURN_IF_ERROR(Print(options, report));
  const bool all_measured = absl::c_all_of(
      report.results(),
      [](const Report::Result& result) { return result.has_p50_us(); });
  return all_measured ? kMeasured : kFailed;
}

absl::StatusOr<int> Run(const std::set<std::string>& given) {
  RETURN_IF_ERROR(CheckTogether(given));
  ASSIGN_OR_RETURN(const Options options, ReadFlags());
  if (!given.contains("server")) return MeasureAndPrint(options);
  RETURN_IF_ERROR(Serve(absl::GetFlag(FLAGS_server), options));
  return kMeasured;
}

}  // namespace
}  // namespace verbena::bench

int main(int argc, char** argv) {
  const verbena::tool::CommandLine line = verbena::tool::ReadCommandLine(
      argc, argv,
      {.name = "rpc_bench",
       .about = verbena::bench::kAbout,
       .implied = {{"csv", verbena::bench::kStandardOutput},
                   {"json", verbena::bench::kStandardOutput},
                   {"server", verbena::bench::kAnyAddress}}});
  const absl::StatusOr<int> exit_code = verbena::bench::Run(line.given);
  if (exit_code.ok()) return *exit_code;
  const absl::Status& status = exit_code.status();
  // A flag is wrong, or an address is not valid.
  const bool bad_flags = absl::IsInvalidArgument(status);
  std::cerr << "rpc_bench: "
            << (bad_flags ? std::string(status.message()) : status.ToString())
            << std::endl;
  return bad_flags ? verbena::tool::kWrongCommandLine : verbena::bench::kFailed;
}
