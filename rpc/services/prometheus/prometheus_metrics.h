// Exports the counters of servers and channels to Prometheus, by
// prometheus-cpp.
//
//   auto metrics = std::make_shared<verbena::PrometheusMetrics>();
//   metrics->AddServer(&builder);
//   metrics->AddChannel(channel);
//   prometheus::Exposer exposer("127.0.0.1:9464");
//   exposer.RegisterCollectable(metrics);
//
// docs/metrics.md lists what is exported. A target of its own, because it
// needs prometheus-cpp.

#ifndef VERBENA_RPC_SERVICES_PROMETHEUS_PROMETHEUS_METRICS_H_
#define VERBENA_RPC_SERVICES_PROMETHEUS_PROMETHEUS_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <memory>
#include <string>
#include <vector>

#include "rpc/channel.h"
#include "rpc/server_builder.h"

namespace verbena {

// Collects from all that it was given, and from the pollers that the channels
// of this process share. One a process is enough, and one of these at most may
// be registered with an Exposer: a second would repeat the names of the first.
//
// Thread-safe. It may be destroyed before or after what it looks at.
class PrometheusMetrics final : public prometheus::Collectable {
 public:
  PrometheusMetrics();
  PrometheusMetrics(const PrometheusMetrics&) = delete;
  PrometheusMetrics& operator=(const PrometheusMetrics&) = delete;
  ~PrometheusMetrics() override;

  // Exports what the server that `builder` builds counts, from when it serves
  // until it is destroyed. `name` becomes the label `server`; of servers of one
  // name the later ones become "NAME#2", "NAME#3".
  void AddServer(ServerBuilder* builder, std::string name = "server");

  // Exports what `channel` counts, and keeps it, until RemoveChannel() or the
  // end of this. `name` becomes the label `channel`, its target if empty; as
  // above, if others have the same.
  void AddChannel(std::shared_ptr<Channel> channel, std::string name = "");
  // Drops it. Whoever relies on it that dropping the last reference waits for
  // callbacks calls this first: they have returned, or another still has the
  // channel. Nothing happens if it was not added.
  void RemoveChannel(const std::shared_ptr<Channel>& channel);

  // For the Exposer, or whatever else takes them.
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  class Sources;

  const std::shared_ptr<Sources> sources_;
};

}  // namespace verbena

#endif  // VERBENA_RPC_SERVICES_PROMETHEUS_PROMETHEUS_METRICS_H_
