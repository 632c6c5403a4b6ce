#include "transport/soft/device/context.h"

#include <utility>

#include "transport/soft/device/soft_device.h"

namespace verbena::soft {

std::unique_ptr<Context> Context::Create(SoftDevice& device) {
  std::unique_ptr<EventQueue> async_events = EventQueue::Create();
  if (async_events == nullptr) return nullptr;
  return std::unique_ptr<Context>(new Context(device, std::move(async_events)));
}

Context::Context(SoftDevice& soft, std::unique_ptr<EventQueue> async_events)
    : verbs_context(), device_(soft), async_events_(std::move(async_events)) {
  context.device = soft.verbs_device();
  // No driver of the kernel takes commands for this device.
  context.cmd_fd = -1;
  context.async_fd = async_events_->fd();
  context.num_comp_vectors = 1;
  soft.port_events().Add(async_events_.get());
}

// Only ports can raise events here, because close_device refuses while objects
// of the context are left.
Context::~Context() { device_.port_events().Remove(async_events_.get()); }

}  // namespace verbena::soft
