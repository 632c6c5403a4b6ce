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
#include "tools/rpc_bench/hw_counters.h"
#include "tools/rpc_bench/local_device.h"
#include "tools/rpc_bench/process.h"
#include "tools/rpc_bench/transport_layer.h"
#include "tools/rpc_bench/verbs_layer.h"
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

std::vector<Case> EchoCases(const Options& options) {
  std::vector<Case> cases =
      Cases(options.sizes_bytes, options.outstanding, CommonOf(options));
  for (Case& measured : cases) {
    measured.attachment = options.payload == PayloadPlace::kAttachment ||
                          (options.payload == PayloadPlace::kBySize &&
                           measured.size_bytes >= kAttachmentFromBytes);
  }
  return cases;
}

// The streams of the verbs layer, with the most outstanding.
std::vector<Case> StreamCases(const Options& options) {
  std::vector<Case> cases;
  // A stream is a closed loop.
  if (options.rate_per_s > 0) return cases;
  const int depth =
      *std::max_element(options.outstanding.begin(), options.outstanding.end());
  for (uint64_t size : options.sizes_bytes) {
    for (Op op : options.verbs_ops) {
      if (op == Op::kEcho) continue;
      cases.push_back(CommonOf(options));
      cases.back().op = op;
      cases.back().size_bytes = size;
      cases.back().outstanding = depth;
    }
  }
  return cases;
}

// `layers` without the verbs layer if that is not to echo.
std::vector<Layer*> EchoLayers(const Options& options,
                               std::vector<Layer*> layers) {
  const std::vector<Op>& ops = options.verbs_ops;
  if (std::find(ops.begin(), ops.end(), Op::kEcho) != ops.end()) return layers;
  layers.erase(std::remove_if(
                   layers.begin(), layers.end(),
                   [](const Layer* layer) { return layer->name() == "verbs"; }),
               layers.end());
  return layers;
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

VerbsOptions VerbsOptionsOf(const Options& options, const std::string& device) {
  VerbsOptions verbs;
  verbs.device = device;
  verbs.events = options.events;
  verbs.bulk_threshold_bytes = options.bulk_threshold_bytes;
  verbs.receive_depth = options.receive_depth;
  if (options.inline_bytes.has_value()) {
    verbs.inline_bytes = *options.inline_bytes;
    verbs.inline_required = true;
  }
  verbs.ib_port = options.ib_port;
  verbs.gid_index = options.gid_index;
  verbs.mtu_bytes = options.mtu_bytes;
  return verbs;
}

}  // namespace

Bench::Bench(Options options) : options_(std::move(options)) {}

Bench::~Bench() = default;

absl::StatusOr<std::unique_ptr<Bench>> Bench::Start(Options options) {
  std::unique_ptr<Bench> bench =
      absl::WrapUnique(new Bench(std::move(options)));
  std::sort(bench->options_.outstanding.begin(),
            bench->options_.outstanding.end());
  if (bench->options_.target.empty()) RETURN_IF_ERROR(bench->StartServer());
  RETURN_IF_ERROR(bench->Connect());
  return bench;
}

// On the device that the options want; narrows them to that and to the server.
absl::Status Bench::StartServer() {
  ASSIGN_OR_RETURN(const LocalDevice device,
                   ChooseLocalDevice(options_.device));
  std::vector<std::string> command = {
      "/proc/self/exe", absl::StrCat("--server=", device.address, ":0"),
      absl::StrCat("--device=", device.name)};
  if (options_.events) command.push_back("--events");
  command.push_back(
      absl::StrCat("--continued-max=", options_.continued_max_bytes));
  const std::vector<int> processors = AllowedProcessors();
  if (options_.pin &&
      (options_.pin_server.has_value() || processors.size() > 1)) {
    command.push_back(absl::StrCat(
        "--pin=", options_.pin_server.value_or(processors.back())));
  }
  ASSIGN_OR_RETURN(server_, ServerProcess::Start(command, kStartTimeout));
  options_.device = device.name;
  options_.target = server_->address();
  return absl::OkStatus();
}

absl::Status Bench::Connect() {
  const std::vector<int> processors = AllowedProcessors();
  if (options_.pin && (options_.pin_client.has_value() ||
                       (server_ != nullptr && processors.size() > 1))) {
    client_processor_ = options_.pin_client.value_or(processors.front());
    RETURN_IF_ERROR(PinTo(client_processor_));
  }
  ASSIGN_OR_RETURN(rpc_, RpcLayer::Connect(options_.target, options_.device,
                                           options_.events, kStartTimeout));
  ASSIGN_OR_RETURN(const DescribeReply server, rpc_->Describe());
  server_processor_ = server.pinned_to();
  if (server.events() != options_.events) {
    return absl::FailedPreconditionError(
        absl::StrCat("the server at ", options_.target, " was started ",
                     server.events() ? "with" : "without",
                     " --events; so must be the client"));
  }
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
      ASSIGN_OR_RETURN(others_.emplace_back(),
                       VerbsLayer::Create(
                           address, VerbsOptionsOf(options_, rpc_->device())));
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

absl::StatusOr<Report> Bench::Measure() {
  Report report;
  report.device = rpc_->device();
  report.events = options_.events;
  report.client_processor = client_processor_;
  report.server_processor = server_processor_;
  const std::vector<Layer*> echo_layers = EchoLayers(options_, layers_);
  const std::vector<Case> echoes = EchoCases(options_);
  std::vector<Layer*> stream_layers;
  for (Layer* layer : layers_) {
    if (layer->name() == "verbs") stream_layers.push_back(layer);
  }
  const std::vector<Case> streams = StreamCases(options_);

  const auto before = HardwareCounters(report.device);
  Progress progress(echoes.size() * echo_layers.size() +
                    streams.size() * stream_layers.size());
  const auto on_start = [&progress](const Layer& layer, const Case& measured) {
    progress.Start(layer, measured);
  };
  const auto cpu_used = [this]() -> absl::StatusOr<absl::Duration> {
    ASSIGN_OR_RETURN(const absl::Duration server, ServerCpuUsed());
    return server + CpuUsed();
  };
  report.results =
      RunCases(echo_layers, echoes, options_.duration, on_start, cpu_used);
  for (Result& result : RunCases(stream_layers, streams, options_.duration,
                                 on_start, cpu_used)) {
    report.results.push_back(std::move(result));
  }
  report.counters = CounterGrowth(before, HardwareCounters(report.device));
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
