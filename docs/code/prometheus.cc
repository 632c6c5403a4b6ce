// The code in docs/metrics.md: see calls.cc.

#include <prometheus/exposer.h>

#include <memory>

#include "rpc/rpc.h"
#include "verbena/services/prometheus/prometheus_metrics.h"

namespace snippets {
namespace {

void Export(verbena::ServerBuilder& builder,
            const std::shared_ptr<verbena::Channel>& channel) {
  auto metrics = std::make_shared<verbena::PrometheusMetrics>();
  metrics->AddServer(&builder);
  metrics->AddChannel(channel);
  prometheus::Exposer exposer("127.0.0.1:9464");
  exposer.RegisterCollectable(metrics);
}

}  // namespace
}  // namespace snippets
