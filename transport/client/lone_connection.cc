#include "transport/client/lone_connection.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "transport/base/status_macros.h"

namespace verbena::transport {

absl::StatusOr<LoneConnection> LoneConnection::Connect(
    const Provider& provider, const base::SocketAddress& address,
    const EndpointOptions& options) {
  LoneConnection lone;
  ASSIGN_OR_RETURN(lone.poller_, ClientPoller::Create());
  Poller& poller = lone.poller_->poller();
  poller.Enter();
  lone.connection_ = lone.poller_->Connect(provider, address, options,
                                           /*observer=*/nullptr);
  // The connection has a deadline of its own, so the wait needs none.
  poller.PollUntil([&lone] { return !lone->connecting(); },
                   absl::InfiniteFuture());
  absl::Status status = lone->failure();
  poller.Leave();
  if (!status.ok()) return status;
  return lone;
}

void LoneConnection::Reset() {
  if (poller_ == nullptr) return;
  Poller& poller = poller_->poller();
  poller.Enter();
  poller_->Close(std::move(connection_));
  poller.Leave();
  poller_.reset();  // Waits until the connection has closed.
}

}  // namespace verbena::transport
