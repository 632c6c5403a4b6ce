#include "rpc/internal/client/service_server.h"

#include "absl/status/statusor.h"
#include "rpc/internal/codec/metadata_codec.h"
#include "rpc/load_report.h"
#include "rpc/metadata.h"
#include "transport/base/clock.h"

namespace verbena::internal {

void ServiceServer::OnResult(Balancer::Result result,
                             absl::Span<const uint8_t> trailing) {
  absl::StatusOr<LoadReport> load = absl::NotFoundError("");
  if (!trailing.empty()) {
    Metadata metadata;
    ParseMetadata(trailing, &metadata).IgnoreError();
    const auto found = metadata.find(kLoadReportKey);
    if (found != metadata.end()) load = ReadLoadReport(found->second);
  }
  if (load.ok()) result.load = &*load;
  balancer_->OnResult(position_, result);
}

void ServiceServer::WatchHealth(SharedPoller* poller,
                                const std::optional<std::string>& service,
                                std::function<void()> on_change) {
  if (health_ != nullptr && health_->service() != service) EndWatch();
  const bool connected = subchannel.state() == ChannelState::kReady;
  if (service.has_value()) {
    if (health_ == nullptr) {
      health_ = std::make_unique<HealthWatch>(poller, address_.address,
                                              *service, std::move(on_change));
    }
    health_->Follow(connected ? subchannel.current() : nullptr);
  }
  healthy_.store(ready() || !connected, std::memory_order_relaxed);
}

void ServiceServer::EndWatch() {
  if (health_ == nullptr) return;
  health_->Follow(nullptr);
  health_ = nullptr;
}

absl::Status ServiceServer::error() const {
  if (health_ != nullptr && subchannel.state() == ChannelState::kReady) {
    return health_->known() ? health_->status() : absl::OkStatus();
  }
  return subchannel.server_leaves() ? absl::OkStatus()
                                    : subchannel.connect_error();
}

ChannelServerMetrics ServiceServer::Describe() const {
  ChannelServerMetrics server = subchannel.Describe();
  server.weight = address_.weight;
  server.load_weight = load_weight();
  server.healthy = healthy_.load(std::memory_order_relaxed);
  server.ejected = ejected();
  // Reads the ended first, of which there are never more than have begun.
  const uint64_t over = ended();
  server.calls = begun();
  server.open_calls = server.calls - over;
  return server;
}

}  // namespace verbena::internal
