#include "rpc/server.h"

#include <utility>

#include "rpc/internal/server/server_impl.h"
#include "rpc/metrics.h"
#include "rpc/server_status.h"
#include "transport/base/clock.h"

namespace verbena {

Server::Server(std::unique_ptr<internal::ServerImpl> impl)
    : impl_(std::move(impl)) {
  for (const auto& listening : impl_->listening()) {
    listening_.push_back({listening.address, listening.port, listening.device});
  }
}

Server::~Server() = default;

uint64_t Server::failed_authentications() const {
  return impl_->failed_authentications();
}

ServerMetrics Server::GetMetrics() const { return impl_->Metrics(); }

ServerStatus Server::GetStatus(absl::Duration patience) const {
  return impl_->Status(patience);
}

void Server::Wait() { impl_->Wait(); }

void Server::Shutdown(absl::Time deadline) {
  // Users give times of the wall clock, and the server waits by a clock that
  // nobody can set.
  impl_->Shutdown(base::FromWallClock(deadline));
}

}  // namespace verbena
