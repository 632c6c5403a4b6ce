// A server of a service, between a balancer and its subchannel.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_SERVICE_SERVER_H_
#define VERBENA_RPC_INTERNAL_CLIENT_SERVICE_SERVER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rpc/balancer.h"
#include "rpc/channel_state.h"
#include "rpc/internal/client/health_watch.h"
#include "rpc/internal/client/picked_server.h"
#include "rpc/internal/client/shared_poller.h"
#include "rpc/internal/client/subchannel.h"
#include "rpc/metrics.h"
#include "rpc/resolver.h"

namespace verbena::internal {

// Decides whether a server may have calls: it is connected, and healthy if it
// is asked. Tells the balancer of the calls that end there. Where there is no
// balancer, this is the only server of its channel.
//
// All functions REQUIRE the poller's ownership, unless their comment says
// otherwise.
class ServiceServer final : public Balancer::Server, public PickedServer {
 public:
  // `arguments` are those of Subchannel().
  template <typename... Arguments>
  explicit ServiceServer(ServerAddress address, Arguments&&... arguments)
      : subchannel(std::forward<Arguments>(arguments)...),
        address_(std::move(address)) {}

  const ServerAddress& address() const override { return address_; }
  uint32_t open_calls() const override {
    return static_cast<uint32_t>(begun() - ended());
  }
  bool same_host() const override { return subchannel.same_host(); }
  void set_address(ServerAddress address) { address_ = std::move(address); }

  // `balancer`, which may be null, is told of results at `position`.
  void ReportTo(Balancer* balancer, size_t position) {
    balancer_ =
        balancer != nullptr && balancer->wants_results() ? balancer : nullptr;
    position_ = position;
    set_wants_results(balancer_ != nullptr);
  }

  // Has the server asked about `service` while it is connected, or about
  // nothing. `on_change` is called when ready() or error() may have changed.
  void WatchHealth(SharedPoller* poller,
                   const std::optional<std::string>& service,
                   std::function<void()> on_change);
  void EndWatch();

  // Whether it may have calls.
  bool ready() const {
    return subchannel.state() == ChannelState::kReady &&
           (health_ == nullptr || health_->status().ok());
  }
  // Why it may not; OK if that is not known yet.
  absl::Status error() const;

  // Any thread. REQUIRES: set_address() is not called meanwhile.
  ChannelServerMetrics Describe() const;

  Subchannel subchannel;

 private:
  void OnResult(Balancer::Result result,
                absl::Span<const uint8_t> trailing) override;

  ServerAddress address_;
  std::unique_ptr<HealthWatch> health_;  // Null if nobody asks.
  Balancer* balancer_ = nullptr;
  size_t position_ = 0;
  std::atomic<bool> healthy_{true};  // For Describe().
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_SERVICE_SERVER_H_
