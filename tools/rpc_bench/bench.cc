#include "tools/rpc_bench/bench.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tools/rpc_bench/host.h"
#include "tools/rpc_bench/local_device.h"
#include "tools/rpc_bench/report.h"
#include "tools/rpc_bench/transport_layer.h"
#include "tools/rpc_bench/verbs_count.h"
#include "tools/rpc_bench/verbs_layer.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/socket_address.h"
#include "transport/base/status_macros.h"

namespace verbena::bench {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(10);

// Idle time that passes first, so that whatever spins has stopped.
constexpr absl::Duration kSilence = absl::Seconds(1);

// A line on standard error that says what is measured just now, if somebody is
// there to see it. Gone when this is destroyed.
class Progress {
 public:
  explicit Progress(size_t measurements)
      : measurements_(measurements), visible_(isatty(STDERR_FILENO) == 1) {}
  ~Progress() { Show(""); }

  void Start(const Layer& layer, const Case& measured) {
    Show(absl::StrFormat("[%d/%d] %s %s, %s, %d outstanding ...", ++started_,
                         measurements_, layer.name(), OpName(measured.op),
                         SizeName(measured.size_bytes), measured.outstanding));
  }

 private:
  void Show(const std::string& text) const {
    // To the start of the line, erase it, write.
    if (visible_) std::cerr << "\r\033[K" << text << std::flush;
  }

  const size_t measurements_;
  const bool visible_;
  size_t started_ = 0;
};

// To do nothing for a while is what is measured.
void PassTime(absl::Duration duration) {
  poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(duration)));
}

Case CommonOf(const Options& options) {
  Case common;
  common.validate = options.validate;
  common.rate_per_s = options.rate_per_s;
  common.iterations = options.iterations;
  return common;
}

bool Wants(const Options& options, Op op) {
  return std::find(options.verbs_ops.begin(), options.verbs_ops.end(), op) !=
         options.verbs_ops.end();
}

std::vector<Case> EchoCases(const Options& options) {
  std::vector<Case> cases =
      Cases(options.sizes_bytes, options.outstanding, CommonOf(options));
  for (Case& measured : cases) {
    measured.attachment = options.payload == "attachment" ||
                          (options.payload.empty() &&
                           measured.size_bytes >= kAttachmentFromBytes);
  }
  return cases;
}

// The streams of the verbs layer, with the most outstanding.
std::vector<Case> StreamCases(const Options& options) {
  std::vector<Case> streams;
  // A stream is a closed loop.
  if (options.rate_per_s > 0) return streams;
  for (Case measured : Cases(options.sizes_bytes, {options.outstanding.back()},
                             CommonOf(options))) {
    for (Op op : options.verbs_ops) {
      measured.op = op;
      if (op != Op::kEcho) streams.push_back(measured);
    }
  }
  return streams;
}

transport::EndpointOptions TransportOptionsOf(const Options& options,
                                              const std::string& device) {
  transport::EndpointOptions endpoint;
  endpoint.device = device;
  endpoint.continued_bytes_max =
      static_cast<uint32_t>(options.continued_max_bytes);
  if (options.events) endpoint.spin_budget = absl::ZeroDuration();
  return endpoint;
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
      "/proc/self/exe", absl::StrCat("--server=", device.address, ":0"),
      absl::StrCat("--device=", device.name),
      absl::StrCat("--continued-max=", options_.continued_max_bytes)};
  if (options_.events) command.push_back("--events");
  if (options_.verbs_count) command.push_back("--verbs-count");
  const std::vector<int> processors = AllowedProcessors();
  const int pinned = options_.pinning.server;
  if (options_.pinning.on && (pinned >= 0 || processors.size() > 1)) {
    command.push_back(
        absl::StrCat("--pin=", pinned >= 0 ? pinned : processors.back()));
  }
  ASSIGN_OR_RETURN(server_, ServerProcess::Start(command, kStartTimeout));
  options_.device = device.name;
  options_.target = server_->address();
  return absl::OkStatus();
}

absl::Status Bench::Connect() {
  const std::vector<int> processors = AllowedProcessors();
  const int pinned = options_.pinning.client;
  if (options_.pinning.on &&
      (pinned >= 0 || (server_ != nullptr && processors.size() > 1))) {
    client_processor_ = pinned >= 0 ? pinned : processors.front();
    RETURN_IF_ERROR(PinTo(client_processor_));
  }
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
  return AddLayers(server);
}

absl::Status Bench::AddLayers(const DescribeReply& server) {
  ASSIGN_OR_RETURN(base::SocketAddress address,
                   base::SocketAddress::Parse(options_.target));
  for (const std::string& layer : options_.layers) {
    if (layer == "rpc") {
      layers_.push_back(rpc_.get());
      continue;
    }
    if (layer == "transport") {
      address.set_port(static_cast<uint16_t>(server.transport_port()));
      others_.push_back(std::make_unique<TransportLayer>(
          address, TransportOptionsOf(options_, rpc_->device())));
    } else {
      address.set_port(static_cast<uint16_t>(server.verbs_port()));
      options_.verbs.device = rpc_->device();
      ASSIGN_OR_RETURN(others_.emplace_back(),
                       VerbsLayer::Create(address, options_.verbs));
    }
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

absl::StatusOr<Measurements> Bench::Measure() {
  std::vector<Layer*> echo_layers;
  std::vector<Layer*> stream_layers;
  for (Layer* layer : layers_) {
    const bool is_verbs = layer->name() == "verbs";
    if (is_verbs) stream_layers.push_back(layer);
    if (!is_verbs || Wants(options_, Op::kEcho)) echo_layers.push_back(layer);
  }
  const std::vector<Case> echoes = EchoCases(options_);
  const std::vector<Case> streams = StreamCases(options_);

  const auto before = HardwareCounters(rpc_->device());
  Progress progress(echoes.size() * echo_layers.size() +
                    streams.size() * stream_layers.size());
  const auto on_start = [&progress](const Layer& layer, const Case& measured) {
    progress.Start(layer, measured);
  };
  const auto usage = [this] { return CurrentUsage(); };
  Measurements measured;
  measured.outcomes =
      RunCases(echo_layers, echoes, options_.duration, on_start, usage);
  for (Outcome& outcome :
       RunCases(stream_layers, streams, options_.duration, on_start, usage)) {
    measured.outcomes.push_back(std::move(outcome));
  }

  Report& report = measured.report;
  report.set_device(rpc_->device());
  if (client_processor_ >= 0) report.set_client_processor(client_processor_);
  if (server_processor_ >= 0) report.set_server_processor(server_processor_);
  for (Outcome& outcome : measured.outcomes) {
    outcome.result.set_mode(options_.events ? "events" : "polled");
    *report.add_results() = outcome.result;
  }
  AddRatios(report);
  for (const auto& [name, grown] :
       CounterGrowth(before, HardwareCounters(report.device()))) {
    (*report.mutable_counters())[name] = static_cast<double>(grown);
  }
  return measured;
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
