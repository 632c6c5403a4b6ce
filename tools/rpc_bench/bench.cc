#include "tools/rpc_bench/bench.h"

#include <poll.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "tools/child/server_child.h"
#include "tools/rpc_bench/host.h"
#include "tools/rpc_bench/report.h"
#include "tools/rpc_bench/rpc_layer.h"
#include "tools/rpc_bench/run_case.h"
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
using Step = std::pair<std::shared_ptr<Layer>, Case>;

// To do nothing for a while is what is measured.
void PassTime(absl::Duration duration) {
  poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(duration)));
}

// Echoes at every layer, then the streams of the verbs layer, which are closed
// loops with the most outstanding.
std::vector<Step> StepsOf(const Options& options,
                          const std::vector<std::shared_ptr<Layer>>& layers) {
  std::vector<Step> echoes;
  std::vector<Step> streams;
  Case measured = options.measured;
  const bool verbs_echo = absl::c_linear_search(options.verbs_ops, Op::kEcho);
  for (const uint64_t size : options.sizes_bytes) {
    measured.op = Op::kEcho;
    measured.size_bytes = size;
    measured.attachment =
        options.payload == "attachment" ||
        (options.payload.empty() && size >= kAttachmentFromBytes);
    for (const int outstanding : options.outstanding) {
      measured.outstanding = outstanding;
      for (const std::shared_ptr<Layer>& layer : layers) {
        if (layer->name() == "verbs" && !verbs_echo) continue;
        echoes.emplace_back(layer, measured);
      }
    }
    for (const Op op : options.verbs_ops) {
      measured.op = op;
      for (const std::shared_ptr<Layer>& layer : layers) {
        if (layer->name() != "verbs" || op == Op::kEcho) continue;
        if (measured.rate_per_s == 0) streams.emplace_back(layer, measured);
      }
    }
  }
  echoes.insert(echoes.end(), streams.begin(), streams.end());
  return echoes;
}

// A server, ours or another's, and the layers that reach it.
class BenchRun {
 public:
  explicit BenchRun(const Options& options) : options_(options) {
    absl::c_sort(options_.outstanding);
  }

  // Runs one step after the other, and shows on a terminal where it is.
  absl::StatusOr<Report> Measure() {
    RETURN_IF_ERROR(Start());
    Report report;
    report.set_device(rpc_->device());
    const int client = options_.pinning.client;
    if (client >= 0) report.set_client_processor(client);
    if (server_processor_ >= 0) report.set_server_processor(server_processor_);
    Counters& counters = *report.mutable_counters();
    // Subtracted now and added at the end, which leaves the growth.
    AddHardwareCounters(report.device(), -1, counters);
    const bool watched = isatty(STDERR_FILENO) == 1;
    const std::vector<Step> steps = StepsOf(options_, layers_);
    for (const auto& [layer, measured] : steps) {
      if (watched) {
        // Goes to the start of the line, erases it, and writes.
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

  // Lets every layer connect and echo for a moment, waits until nothing spins,
  // then compares processor times over the duration.
  absl::StatusOr<std::string> MeasureIdle() {
    RETURN_IF_ERROR(Start());
    std::string names;
    for (const std::shared_ptr<Layer>& layer : layers_) {
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
    for (const std::shared_ptr<Layer>& layer : layers_) layer->Release();
    return absl::StrFormat(
        "idle on %s (%s): client %.3f %%, server %.3f %% of a processor\n",
        rpc_->device(), names, 100 * absl::FDivDuration(client, elapsed),
        100 * absl::FDivDuration(server_after - server_before, elapsed));
  }

 private:
  // Starts a server if the options name none, and connects.
  absl::Status Start() {
    if (options_.target.empty()) RETURN_IF_ERROR(StartServer());
    return Connect();
  }

  // Starts a server on the device that the options ask for. Sets the device and
  // the target in the options to those of the server.
  absl::Status StartServer() {
    transport::EndpointOptions& endpoint = options_.endpoint;
    ASSIGN_OR_RETURN(const LocalDevice device,
                     ChooseLocalDevice(endpoint.device));
    std::vector<std::string> command = {
        "/proc/self/exe", absl::StrCat("--server=", device.address),
        absl::StrCat("--device=", device.name),
        absl::StrCat("--continued-max=", endpoint.continued_bytes_max)};
    command.push_back(absl::StrCat(
        "--api=", kApiNames[static_cast<size_t>(options_.measured.api)]));
    // The server asks nobody for a certificate, because its own may not be good
    // for a client.
    TlsFiles& tls = options_.tls;
    if (!tls.private_key.empty()) {
      command.push_back(absl::StrCat("--tls-cert=", tls.certificate_chain));
      command.push_back(absl::StrCat("--tls-key=", tls.private_key));
      tls.certificate_chain = tls.private_key = "";
    }
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
    ASSIGN_OR_RETURN(server_,
                     tools::ServerChild::Start(command, kStartTimeout));
    endpoint.device = device.name;
    options_.target = server_->address();
    return absl::OkStatus();
  }

  // Connects to the server, and adds the layers that the options ask for. RPC
  // comes first, because the server's answer says how it was started, and at
  // which ports its other layers listen.
  absl::Status Connect() {
    const int processor = options_.pinning.client;
    std::string& device = options_.endpoint.device;
    if (processor >= 0) RETURN_IF_ERROR(PinTo(processor));
    if (options_.verbs_count) CountVerbsOfDevices(device);
    ChannelOptions channel;
    channel.device = device;
    channel.spin_budget = options_.endpoint.spin_budget;
    channel.inline_callbacks = options_.inline_callbacks;
    channel.max_paths = options_.max_paths;
    channel.service_config = options_.service_config;
    channel.checksum = options_.endpoint.checksum;
    channel.revoke_leases = options_.endpoint.revoke_leases;
    // A call for each stream, and one for Describe().
    channel.max_concurrent_calls = kMaxStreams + 1;
    Crowd crowd = {.channels = options_.channels, .busy = options_.busy};
    ASSIGN_OR_RETURN(crowd.credentials,
                     ChannelCredentialsFromFiles(options_.tls));
    ASSIGN_OR_RETURN(rpc_, RpcLayer::Connect(options_.target, channel,
                                             kStartTimeout, crowd));
    ASSIGN_OR_RETURN(const DescribeReply server, rpc_->Describe());
    server_processor_ = server.pinned_to();
    const auto not_alike = [this](absl::string_view has) {
      return absl::FailedPreconditionError(
          absl::StrCat("the server at ", options_.target, " was started ", has,
                       "; start this client the same way"));
    };
    if (server.events() != options_.events) {
      return not_alike(server.events() ? "with --events" : "without --events");
    }
    if (options_.verbs_count && !server.has_verbs()) {
      return not_alike("without --verbs-count");
    }
    device = rpc_->device();
    for (const std::string& layer : options_.layers) {
      if (layer == "rpc") {
        layers_.push_back(rpc_);
        continue;
      }
      // Only channels lead to services.
      ASSIGN_OR_RETURN(base::SocketAddress address,
                       base::SocketAddress::Parse(options_.target));
      if (layer == "verbs") {
        address.set_port(static_cast<uint16_t>(server.verbs_port()));
        layers_.push_back(NewVerbsLayer(address, device, options_.events));
      } else {
        address.set_port(static_cast<uint16_t>(server.transport_port()));
        layers_.push_back(NewTransportLayer(address, options_.endpoint));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<absl::Duration> ServerCpuUsed() {
    // Our own server is not asked, because the question would take time of a
    // processor that another layer may be using.
    if (server_ != nullptr) return CpuUsedBy(server_->process().pid());
    ASSIGN_OR_RETURN(const DescribeReply server, rpc_->Describe());
    return absl::Nanoseconds(server.cpu_ns());
  }

  // Adds up both processes, because a call costs both.
  absl::StatusOr<Usage> CurrentUsage() {
    Usage usage;
    ASSIGN_OR_RETURN(const absl::Duration server, ServerCpuUsed());
    usage.cpu = server + CpuUsed();
    if (!options_.verbs_count) return usage;
    // Only the server has its counts. This call is counted too, but that does
    // not matter beside thousands of others.
    ASSIGN_OR_RETURN(const DescribeReply description, rpc_->Describe());
    usage.server_verbs = description.verbs();
    usage.client_verbs = VerbsCounted();
    usage.verbs_are_counted = true;
    return usage;
  }

  Options options_;
  int server_processor_ = -1;  // -1: not pinned.
  // Each member depends on those before it.
  std::unique_ptr<tools::ServerChild> server_;  // Null with --target.
  std::shared_ptr<RpcLayer> rpc_;               // Also asks the server.
  std::vector<std::shared_ptr<Layer>> layers_;  // The layers to measure.
};

}  // namespace

absl::StatusOr<Report> Measure(const Options& options) {
  return BenchRun(options).Measure();
}

absl::StatusOr<std::string> MeasureIdle(const Options& options) {
  return BenchRun(options).MeasureIdle();
}

}  // namespace verbena::bench
