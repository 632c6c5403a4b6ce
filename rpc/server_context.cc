#include "rpc/server_context.h"

#include "absl/time/clock.h"

namespace verbena {

bool ServerContext::IsCancelled() const {
  return call_->cancelled() ||
         (deadline_ != absl::InfiniteFuture() && deadline_ <= absl::Now());
}

void ServerContext::Reset(absl::Time deadline) {
  deadline_ = deadline;
  if (!client_metadata_.empty()) client_metadata_.clear();
  if (!trailing_metadata_.empty()) trailing_metadata_.clear();
}

}  // namespace verbena
