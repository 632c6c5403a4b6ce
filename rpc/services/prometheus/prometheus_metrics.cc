#include "rpc/services/prometheus/prometheus_metrics.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_type.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "rpc/metrics.h"
#include "rpc/server.h"
#include "transport/base/mutex.h"

namespace verbena {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

Labels With(Labels labels, std::string name, std::string value) {
  labels.push_back({std::move(name), std::move(value)});
  return labels;
}

// Families, each with the values of all that have some. Of one side: what
// servers count has other names than what clients do.
class Families {
 public:
  explicit Families(absl::string_view side)
      : prefix_(absl::StrCat("verbena_", side, "_")) {}

  // Something that only grows. "_total" is added to the name.
  void Count(absl::string_view name, absl::string_view help,
             const Labels& labels, uint64_t value) {
    Add(absl::StrCat(name, "_total"), help, MetricType::Counter, labels)
        .counter.value = static_cast<double>(value);
  }
  // Something that goes up and down.
  void Gauge(absl::string_view name, absl::string_view help,
             const Labels& labels, uint64_t value) {
    Add(name, help, MetricType::Gauge, labels).gauge.value =
        static_cast<double>(value);
  }
  void Histogram(absl::string_view name, absl::string_view help,
                 const Labels& labels, const LatencyMetrics& latency) {
    ClientMetric::Histogram& histogram =
        Add(name, help, MetricType::Histogram, labels).histogram;
    // The last bucket has no end: those of it are among all only.
    for (size_t i = 0; i < LatencyMetrics::kBuckets; ++i) {
      histogram.sample_count += latency.counts[i];
      if (i + 1 == LatencyMetrics::kBuckets) break;
      histogram.bucket.push_back(
          {histogram.sample_count, LatencyMetrics::UpperBoundSeconds(i)});
    }
    histogram.sample_sum = latency.sum_seconds;
  }

  void AppendTo(std::vector<MetricFamily>* families) {
    for (auto& [name, family] : families_) {
      families->push_back(std::move(family));
    }
  }

 private:
  ClientMetric& Add(absl::string_view name, absl::string_view help,
                    MetricType type, const Labels& labels) {
    const std::string full_name = absl::StrCat(prefix_, name);
    MetricFamily& family = families_[full_name];
    family.name = full_name;
    family.help = std::string(help);
    family.type = type;
    family.metric.emplace_back().label = labels;
    return family.metric.back();
  }

  const std::string prefix_;
  std::map<std::string, MetricFamily> families_;
};

// Gives each counter the label of its method. Series without a value are left
// out where there would be many.
void AddMethod(const MethodMetrics& method, const Labels& owner,
               Families* out) {
  const Labels labels = With(owner, "method", method.name);
  out->Count("calls_started", "Calls that have begun.", labels, method.started);
  for (size_t i = 0; i < method.ended.size(); ++i) {
    const auto code = static_cast<absl::StatusCode>(i);
    // A method that never fails is not to be seventeen series.
    if (method.ended[i] == 0 && code != absl::StatusCode::kOk) continue;
    out->Count("calls_ended", "Calls that have ended, by status code.",
               With(labels, "code", absl::StatusCodeToString(code)),
               method.ended[i]);
  }
  out->Gauge("open_calls", "Calls that have begun but not ended.", labels,
             method.open());
  out->Histogram("call_duration_seconds", "Duration of calls that have ended.",
                 labels, method.latency);
  out->Count("request_bytes", "Serialised requests and their attachments.",
             labels, method.request_bytes);
  out->Count("response_bytes", "Serialised responses and their attachments.",
             labels, method.response_bytes);
  if (!method.streams) return;
  out->Count("stream_requests",
             "Messages from clients, in streams that have ended.", labels,
             method.stream_requests);
  out->Count("stream_responses",
             "Messages to clients, in streams that have ended.", labels,
             method.stream_responses);
}

// Counters of one device, of all pollers together.
void AddDevice(const DeviceMetrics& device, const Labels& owner,
               Families* out) {
  const Labels labels = With(owner, "device", device.device);
  for (const auto& [state, count] :
       {std::pair("connecting", device.connecting),
        std::pair("open", device.open), std::pair("closing", device.closing)}) {
    out->Gauge("connections", "Connections, by state.",
               With(labels, "state", state), count);
  }
  out->Count("connections_begun", "Connections that have begun.", labels,
             device.connections_begun);
  out->Count("failed_handshakes",
             "Connections that ended before they were open.", labels,
             device.failed_handshakes);
  out->Count("unopened",
             "Connections that ended because something sealed did not open.",
             labels, device.unopened);
  out->Count("retries_exceeded",
             "Connections given up because the peer did not answer the device.",
             labels, device.retries_exceeded);
  out->Count("rnr_retries_exceeded",
             "Connections given up because the peer had no receive posted.",
             labels, device.rnr_retries_exceeded);
  out->Count("credit_waits", "How often a frame had to wait for a credit.",
             labels, device.credit_waits);
  out->Count(
      "slot_waits",
      "Calls that waited because their connection had its limit of open calls.",
      labels, device.slot_waits);
  out->Gauge("frame_memory_bytes", "Memory registered for frames.", labels,
             device.frame_bytes);
  out->Gauge("pool_memory_bytes", "Memory registered for large messages.",
             labels, device.pool_bytes);
  out->Gauge("pool_memory_used_bytes",
             "Memory for large messages that is in use.", labels,
             device.pool_used_bytes);
  out->Gauge("leases", "Pieces of memory that servers may write replies to.",
             labels, device.leases);
  out->Gauge("quarantined_calls",
             "Calls that have ended while a server may still use their memory.",
             labels, device.quarantined_calls);
}

void AddPollers(const PollerMetrics& pollers, const Labels& labels,
                Families* out) {
  out->Gauge("pollers", "Pollers.", labels, pollers.pollers);
  out->Count("polls", "Rounds in which a poller looked at its connections.",
             labels, pollers.polls);
  out->Count("poller_arms", "Times that a poller armed its queues to sleep.",
             labels, pollers.arms);
  out->Count("poller_sleeps", "Times that a poller entered the kernel to wait.",
             labels, pollers.sleeps);
  for (const DeviceMetrics& device : pollers.devices) {
    AddDevice(device, labels, out);
  }
}

// Methods first, then the refusals by their limit, the workers, and the
// pollers.
void AddServerMetrics(const ServerMetrics& metrics, const Labels& labels,
                      Families* out) {
  for (const MethodMetrics& method : metrics.methods) {
    AddMethod(method, labels, out);
  }
  out->Count("unknown_method_calls",
             "Calls of methods that the server does not have.", labels,
             metrics.unknown_methods);
  for (const auto& [limit, count] :
       {std::pair("concurrent_calls", metrics.calls_over_limit),
        std::pair("concurrent_streams", metrics.streams_over_limit),
        std::pair("worker_queue", metrics.queue_refusals),
        std::pair("workers", metrics.unserved_calls)}) {
    out->Count("refused_calls",
               "Calls that were refused, by the limit that they met.",
               With(labels, "limit", limit), count);
  }
  out->Count("refused_connections",
             "Connections that were refused before they began.", labels,
             metrics.refused_connections);
  out->Count("failed_authentications",
             "Clients that did not prove who they are.", labels,
             metrics.failed_authentications);
  out->Gauge("workers", "Threads for handlers that may block.", labels,
             metrics.workers);
  out->Gauge("idle_workers", "Worker threads without work.", labels,
             metrics.idle_workers);
  out->Gauge("queued_calls", "Calls that wait for a worker thread.", labels,
             metrics.queued_calls);
  AddPollers(metrics.pollers, labels, out);
}

// Has no pollers: the channels of a process share them, so Collect() adds them
// once.
// The servers of a channel are ChannelOptions::max_servers at most.
void AddChannelServer(const ChannelServerMetrics& server, const Labels& channel,
                      Families* out) {
  const Labels labels = With(channel, "address", server.address);
  out->Gauge("channel_server_ready",
             "Whether the server is connected, healthy and not ejected.",
             labels,
             server.connected && server.healthy && !server.ejected ? 1 : 0);
  out->Gauge("channel_server_ejected",
             "Whether the server is kept away from calls as an outlier.",
             labels, server.ejected ? 1 : 0);
  out->Count(
      "channel_server_calls",
      "Attempts of calls at the server, with a policy that spreads them.",
      labels, server.calls);
  out->Gauge("channel_server_open_calls",
             "Those of the attempts that have not ended.", labels,
             server.open_calls);
}

void AddChannelMetrics(const ChannelMetrics& metrics, const Labels& labels,
                       Families* out) {
  for (const MethodMetrics& method : metrics.methods) {
    AddMethod(method, labels, out);
  }
  out->Gauge("connected", "Whether the channel has a connection, on `device`.",
             With(labels, "device", metrics.device), metrics.connected ? 1 : 0);
  out->Gauge("channel_paths",
             "Connections that take the channel's calls: one for each network "
             "that it uses.",
             labels, metrics.paths);
  for (const ChannelServerMetrics& server : metrics.servers) {
    AddChannelServer(server, labels, out);
  }
  for (const char* const fabric : {"rdma", "tcp", "shm"}) {
    out->Gauge("channel_fabric",
               "Whether the channel's connection goes by `fabric`: RDMA, TCP, "
               "or the shared memory of the host.",
               With(labels, "fabric", fabric),
               metrics.fabric == fabric ? 1 : 0);
  }
  out->Count(
      "retried_calls",
      "Calls that were sent again because the server had not processed them.",
      labels, metrics.retries);
  out->Count("connects",
             "Connections of the channel; all but the first are reconnects.",
             labels, metrics.connects);
  out->Count("failed_connects", "Attempts to connect that failed.", labels,
             metrics.failed_connects);
}

}  // namespace

// The servers and channels to collect from. Servers remove themselves when they
// are destroyed. Until then they keep this object, but not the channels.
class PrometheusMetrics::Sources {
 public:
  void AddServer(const Server* server, const std::string& name) {
    const base::MutexLock lock(mutex_);
    servers_.emplace(FreeName(servers_, name), server);
  }
  void RemoveServer(const Server* server) {
    const base::MutexLock lock(mutex_);
    // By the address: the name may have got a number.
    std::erase_if(servers_, [server](const auto& entry) {
      return entry.second == server;
    });
  }

  void AddChannel(std::shared_ptr<Channel> channel, const std::string& name) {
    const base::MutexLock lock(mutex_);
    channels_.emplace(FreeName(channels_, name), std::move(channel));
  }
  void RemoveChannel(const std::shared_ptr<Channel>& channel) {
    Channels dropped;  // After the lock: its callbacks may come back here.
    const base::MutexLock lock(mutex_);
    for (auto entry = channels_.begin(); entry != channels_.end();) {
      const auto next = std::next(entry);
      if (entry->second == channel) dropped.insert(channels_.extract(entry));
      entry = next;
    }
  }
  void RemoveAllChannels() {
    Channels dropped;
    const base::MutexLock lock(mutex_);
    dropped.swap(channels_);
  }

  std::vector<MetricFamily> Collect() const {
    std::vector<MetricFamily> families;
    Families of_servers("server");
    Families of_clients("client");
    // Without the mutex, and once for all channels.
    AddPollers(ClientPollerMetrics(), {}, &of_clients);
    const base::MutexLock lock(mutex_);
    for (const auto& [name, server] : servers_) {
      AddServerMetrics(server->GetMetrics(), {{"server", name}}, &of_servers);
    }
    for (const auto& [name, channel] : channels_) {
      AddChannelMetrics(channel->GetMetrics(), {{"channel", name}},
                        &of_clients);
    }
    of_servers.AppendTo(&families);
    of_clients.AppendTo(&families);
    return families;
  }

 private:
  using Channels = std::map<std::string, std::shared_ptr<Channel>>;

  // Two series of the same labels would be an error to Prometheus.
  template <typename Map>
  static std::string FreeName(const Map& map, const std::string& name) {
    std::string free = name;
    for (int i = 2; map.contains(free); ++i) free = absl::StrCat(name, "#", i);
    return free;
  }

  mutable base::Mutex mutex_;
  std::map<std::string, const Server*> servers_ ABSL_GUARDED_BY(mutex_);
  // Not weak: to collect would then take a reference, which might become the
  // last one, and the channel would end here instead of where it was dropped.
  Channels channels_ ABSL_GUARDED_BY(mutex_);
};

PrometheusMetrics::PrometheusMetrics() : sources_(new Sources) {}

PrometheusMetrics::~PrometheusMetrics() { sources_->RemoveAllChannels(); }

void PrometheusMetrics::AddServer(ServerBuilder* builder, std::string name) {
  // The server owns it, and destroys it before the counters.
  class Exported final : public ServerExtension {
   public:
    Exported(std::shared_ptr<Sources> sources, const Server& server)
        : sources_(std::move(sources)), server_(server) {}
    ~Exported() override { sources_->RemoveServer(&server_); }

   private:
    const std::shared_ptr<Sources> sources_;
    const Server& server_;
  };
  builder->AddExtension(
      [sources = sources_, name = std::move(name)](const Server& server)
          -> absl::StatusOr<std::unique_ptr<ServerExtension>> {
        sources->AddServer(&server, name);
        return std::make_unique<Exported>(sources, server);
      });
}

void PrometheusMetrics::AddChannel(std::shared_ptr<Channel> channel,
                                   std::string name) {
  if (name.empty()) name = channel->target();
  sources_->AddChannel(std::move(channel), name);
}

void PrometheusMetrics::RemoveChannel(const std::shared_ptr<Channel>& channel) {
  sources_->RemoveChannel(channel);
}

std::vector<MetricFamily> PrometheusMetrics::Collect() const {
  return sources_->Collect();
}

}  // namespace verbena
