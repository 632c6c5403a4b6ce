#include "tools/rpc_bench/bench.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "tools/rpc_bench/host.h"
#include "tools/rpc_bench/report.h"
#include "tools/rpc_bench/transport_layer.h"
#include "tools/rpc_bench/verbs_count.h"
#include "tools/rpc_bench/verbs_layer.h"
#include "transport/base/socket_address.h"
#include "transport/base/status_macros.h"

namespace verbena::bench {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(10);

// Idle time that passes first, so that whatever spins has stopped.
constexpr absl::Duration kSilence = absl::Seconds(1);

// From this size on nobody who cares puts a payload into a message.
constexpr uint64_t kAttachmentFromBytes = 64 << 10;

// A measurement to make.
struct Step {
  Layer* layer;
  Case measured;
};

// To do nothing for a while is what is measured.
void PassTime(absl::Duration duration) {
  poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(duration)));
}

// Echoes at every layer, then the streams of the verbs layer, which are closed
// loops with the most outstanding.
std::vector<Step> StepsOf(const Options& options,
                          const std::vector<Layer*>& layers) {
  std::vector<Step> echoes;
  std::vector<Step> streams;
  for (const uint64_t size : options.sizes_bytes) {
    Case measured = {
        .size_bytes = size,
        .attachment = options.payload == "attachment" ||
                      (options.payload.empty() && size >= kAttachmentFromBytes),
        .validate = options.validate,
        .rate_per_s = options.rate_per_s,
        .iterations = options.iterations};
    const auto wanted = [&options](Op op) {
      return std::count(options.verbs_ops.begin(), options.verbs_ops.end(),
                        op) > 0;
    };
    for (const int outstanding : options.outstanding) {
      measured.outstanding = outstanding;
      for (Layer* layer : layers) {
        if (layer->name() == "verbs" && !wanted(Op::kEcho)) continue;
        echoes.push_back({layer, measured});
      }
    }
    for (const Op op : options.verbs_ops) {
      measured.op = op;
      for (Layer* layer : layers) {
        if (layer->name() != "verbs" || op == Op::kEcho) continue;
        if (options.rate_per_s == 0) streams.push_back({layer, measured});
      }
    }
  }
  echoes.insert(echoes.end(), streams.begin(), streams.end());
  return echoes;
}

// The server was started otherwise than this client.
absl::Status NotAlike(const Options& options, absl::string_view flag,
                      bool server) {
  return absl::FailedPreconditionError(absl::StrCat(
      "the server at ", options.target, " was started ",
      server ? "with" : "without", " ", flag, "; so must be the client"));
}

}  // namespace

Bench::Bench(Options options) : options_(std::move(options)) {}

Bench::~Bench() = default;

absl::StatusOr<std::unique_ptr<Bench>> Bench::Start(Options options) {
  std::sort(options.outstanding.begin(), options.outstanding.end());
  std::unique_ptr<Bench> bench =
      absl::WrapUnique(new Bench(std::move(options)));
  if (bench->options_.target.empty()) RETURN_IF_ERROR(bench->StartServer());
  RETURN_IF_ERROR(bench->Connect());
  return bench;
}

absl::Status Bench::StartServer() {
  ASSIGN_OR_RETURN(const LocalDevice device,
                   ChooseLocalDevice(options_.device));
  std::vector<std::string> command = {
      "/proc/self/exe", absl::StrCat("--server=", device.address),
      absl::StrCat("--device=", device.name),
      absl::StrCat("--continued-max=", options_.continued_max_bytes)};
  if (options_.events) command.push_back("--events");
  if (options_.verbs_count) command.push_back("--verbs-count");
  const std::vector<int> processors = AllowedProcessors();
  Pinning& pinning = options_.pinning;
  if (pinning.on && pinning.server < 0 && processors.size() > 1) {
    pinning = {.client = processors.front(), .server = processors.back()};
  }
  if (pinning.server >= 0) {
    command.push_back(absl::StrCat("--pin=", pinning.server));
  }
  ASSIGN_OR_RETURN(server_, tools::ServerChild::Start(command, kStartTimeout));
  options_.device = device.name;
  options_.target = server_->address();
  return absl::OkStatus();
}

absl::Status Bench::Connect() {
  const int processor = options_.pinning.client;
  if (processor >= 0) RETURN_IF_ERROR(PinTo(processor));
  if (options_.verbs_count) CountVerbsOfDevices(options_.device);
  ASSIGN_OR_RETURN(rpc_, RpcLayer::Connect(options_.target, options_.device,
                                           options_.events, kStartTimeout));
  ASSIGN_OR_RETURN(const DescribeReply server, rpc_->Describe());
  server_processor_ = server.pinned_to();
  if (server.events() != options_.events) {
    return NotAlike(options_, "--events", server.events());
  }
  if (options_.verbs_count && !server.has_verbs()) {
    return NotAlike(options_, "--verbs-count", server.has_verbs());
  }
  options_.device = rpc_->device();
  ASSIGN_OR_RETURN(base::SocketAddress address,
                   base::SocketAddress::Parse(options_.target));
  for (const std::string& layer : options_.layers) {
    if (layer == "rpc") {
      layers_.push_back(rpc_.get());
      continue;
    }
    const bool verbs = layer == "verbs";
    address.set_port(static_cast<uint16_t>(verbs ? server.verbs_port()
                                                 : server.transport_port()));
    others_.push_back(
        verbs ? NewVerbsLayer(address, options_.device, options_.events)
              : NewTransportLayer(address, EndpointOptionsOf(options_)));
    layers_.push_back(others_.back().get());
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::Duration> Bench::ServerCpuUsed() {
  // To ask it takes time of a processor that another layer may be using.
  if (server_ != nullptr) return CpuUsedBy(server_->pid());
  ASSIGN_OR_RETURN(const DescribeReply server, rpc_->Describe());
  return absl::Nanoseconds(server.cpu_ns());
}

absl::StatusOr<Usage> Bench::CurrentUsage() {
  Usage usage;
  ASSIGN_OR_RETURN(const absl::Duration server, ServerCpuUsed());
  usage.cpu = server + CpuUsed();
  if (!options_.verbs_count) return usage;
  // Only the server knows what it counts. This call is counted too, but there
  // are thousands of others.
  ASSIGN_OR_RETURN(const DescribeReply description, rpc_->Describe());
  usage.server_verbs = description.verbs();
  usage.client_verbs = VerbsCounted();
  usage.verbs_are_counted = true;
  return usage;
}

Report Bench::Measure() {
  Report report;
  report.set_device(rpc_->device());
  const int client = options_.pinning.client;
  if (client >= 0) report.set_client_processor(client);
  if (server_processor_ >= 0) report.set_server_processor(server_processor_);
  Counters& counters = *report.mutable_counters();
  AddHardwareCounters(report.device(), -1, counters);
  const bool watched = isatty(STDERR_FILENO) == 1;
  const std::vector<Step> steps = StepsOf(options_, layers_);
  for (const auto& [layer, measured] : steps) {
    if (watched) {
      // To the start of the line, erase it, write.
      std::cerr << absl::StreamFormat(
                       "\r\033[K[%d/%d] %s %s, %s, %d outstanding ...",
                       report.results_size() + 1, steps.size(), layer->name(),
                       OpName(measured.op), SizeName(measured.size_bytes),
                       measured.outstanding)
                << std::flush;
    }
    Report::Result& result = *report.add_results();
    result = RunCase(*layer, measured, options_.duration,
                     [this] { return CurrentUsage(); });
    result.set_mode(options_.events ? "events" : "polled");
  }
  if (watched) std::cerr << "\r\033[K" << std::flush;
  AddRatios(report);
  AddHardwareCounters(report.device(), +1, counters);
  return report;
}

absl::StatusOr<std::string> Bench::MeasureIdle() {
  std::string names;
  for (Layer* layer : layers_) {
    // Bare verbs that poll are never idle.
    if (layer->name() == "verbs" && !options_.events) continue;
    RETURN_IF_ERROR(layer->Prepare(Case()));
    layer->Run({.size_bytes = 64}, absl::Milliseconds(100));
    absl::StrAppend(&names, names.empty() ? "" : ", ", layer->name());
  }
  PassTime(kSilence);
  ASSIGN_OR_RETURN(const absl::Duration server_before, ServerCpuUsed());
  const absl::Duration client_before = CpuUsed();
  const absl::Time began = absl::Now();
  PassTime(options_.duration);
  const absl::Duration elapsed = absl::Now() - began;
  const absl::Duration client = CpuUsed() - client_before;
  ASSIGN_OR_RETURN(const absl::Duration server_after, ServerCpuUsed());
  for (Layer* layer : layers_) layer->Release();
  return absl::StrFormat(
      "idle on %s (%s): client %.3f %%, server %.3f %% of a processor\n",
      rpc_->device(), names, 100 * absl::FDivDuration(client, elapsed),
      100 * absl::FDivDuration(server_after - server_before, elapsed));
}

}  // namespace verbena::bench
