#include "rpc/channel.h"

#include <string>
#include <thread>
#include <utility>

#include "rpc/internal/client/channel_impl.h"

namespace verbena {

Channel::Channel(std::string target, const ChannelOptions& options)
    : impl_(std::make_unique<internal::ChannelImpl>(std::move(target),
                                                    options)) {}

Channel::~Channel() {
  if (!impl_->InCallback()) return;
  // The thread that polls the channel is below us on the stack, so it can't be
  // waited for here.
  std::thread([impl = std::move(impl_)] {}).detach();
}

const std::string& Channel::target() const { return impl_->target(); }

ChannelState Channel::state(bool try_to_connect) {
  return impl_->state(try_to_connect);
}

bool Channel::WaitForConnected(absl::Time deadline) {
  return impl_->WaitForConnected(deadline);
}

std::string Channel::device() const { return impl_->device(); }

Buffer Channel::AllocateBuffer(size_t bytes) const {
  return impl_->AllocateBuffer(bytes);
}

std::shared_ptr<Channel> CreateChannel(absl::string_view target,
                                       const ChannelOptions& options) {
  return std::make_shared<Channel>(std::string(target), options);
}

}  // namespace verbena
