// Asks a server whether it is healthy, and goes on asking.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_HEALTH_WATCH_H_
#define VERBENA_RPC_INTERNAL_CLIENT_HEALTH_WATCH_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rpc/internal/client/backoff.h"
#include "rpc/internal/client/poller_timer.h"
#include "rpc/internal/client/shared_poller.h"
#include "transport/client/client_connection.h"

namespace verbena::internal {

// Follows grpc.health.v1.Health/Watch of a service on a connection (gRPC's
// proposal A17). A server without that service counts as healthy.
//
// All functions REQUIRE the poller's ownership, and must not be called from
// inside the connection.
class HealthWatch {
 public:
  // `server` is what messages call the server. `on_change` is called when
  // status() has changed, maybe from inside the connection.
  HealthWatch(SharedPoller* poller, std::string server, std::string service,
              std::function<void()> on_change);
  HealthWatch(const HealthWatch&) = delete;
  HealthWatch& operator=(const HealthWatch&) = delete;
  // REQUIRES: it follows no connection.
  ~HealthWatch();

  // Asks on `connection` from now on; null: on none.
  void Follow(transport::ClientConnection* connection);

  // OK if the server is healthy. Else UNAVAILABLE, also until it has said.
  const absl::Status& status() const { return status_; }
  // Whether status() goes by what the server has said, or failed to say.
  bool known() const { return !pending_; }
  const std::string& service() const { return service_; }

 private:
  class Call;

  void Ask();
  // The server has answered.
  void OnAnswer(absl::Status status);
  // The call has ended with an error.
  void OnEnd(const absl::Status& status);
  void TakeForHealthy(absl::string_view why);
  void SetStatus(absl::Status status, bool pending);

  SharedPoller& poller_;
  const std::string server_;
  const std::string service_;
  const std::function<void()> on_change_;
  PollerTimer timer_;  // The end of the pause after a call that has failed.
  Backoff backoff_;
  transport::ClientConnection* connection_ = nullptr;
  Call* call_ = nullptr;  // The call on connection_.
  absl::Status status_;
  // The first answer of a connection is to come, for which somebody must poll.
  bool pending_ = false;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_HEALTH_WATCH_H_
