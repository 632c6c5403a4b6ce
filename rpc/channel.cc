#include "rpc/channel.h"

#include <utility>

#include "rpc/credentials.h"
#include "rpc/internal/client/channel_impl.h"
#include "rpc/internal/client/shared_pollers.h"
#include "rpc/metrics.h"
#include "transport/base/clock.h"

namespace verbena {

using internal::ChannelImpl;

Channel::~Channel() {
  if (ChannelImpl* const made = impl(); made != nullptr) made->Retire();
}

// Makes the inside of the channel at its first use, without a lock. If two
// threads do so, one keeps its object and the other retires its own.
absl::StatusOr<ChannelImpl*> Channel::MakeImpl() {
  ChannelImpl* made = impl();
  if (made != nullptr) return made;
  absl::StatusOr<ChannelImpl*> mine =
      ChannelImpl::Create(target_, credentials_, options_);
  if (!mine.ok()) return mine;
  // Releases what Create() has written to the threads that load impl_.
  if (impl_.compare_exchange_strong(made, *mine, std::memory_order_acq_rel)) {
    return mine;
  }
  // Another thread was faster.
  (*mine)->Retire();
  return made;
}

ChannelState Channel::state(bool try_to_connect) {
  if (try_to_connect) MakeImpl().IgnoreError();
  return impl() == nullptr ? ChannelState::kIdle
                           : impl()->state(try_to_connect);
}

bool Channel::WaitForConnected(absl::Time deadline) {
  const absl::StatusOr<ChannelImpl*> made = MakeImpl();
  // Users give times of the wall clock, and all waits inside use base::Now().
  return made.ok() && (*made)->WaitForConnected(base::FromWallClock(deadline));
}

std::string Channel::device() const {
  return impl() == nullptr ? "" : impl()->device();
}

ChannelMetrics Channel::GetMetrics() const {
  if (impl() != nullptr) return impl()->Metrics();
  ChannelMetrics metrics;
  metrics.target = target_;
  return metrics;
}

PollerMetrics ClientPollerMetrics() {
  return internal::SharedPollers::OfProcess().Metrics();
}

Buffer Channel::AllocateBuffer(size_t bytes) const {
  // A channel that was never used has no registered memory.
  return impl() == nullptr ? transport::BufferSource().Allocate(bytes)
                           : impl()->AllocateBuffer(bytes);
}

std::shared_ptr<Channel> CreateChannel(absl::string_view target,
                                       const ChannelOptions& options) {
  return CreateChannel(target, InsecureChannelCredentials(), options);
}

std::shared_ptr<Channel> CreateChannel(
    absl::string_view target, std::shared_ptr<ChannelCredentials> credentials,
    const ChannelOptions& options) {
  return std::make_shared<Channel>(std::string(target), std::move(credentials),
                                   options);
}

}  // namespace verbena
