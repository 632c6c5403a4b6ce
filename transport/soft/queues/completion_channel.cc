#include "transport/soft/queues/completion_channel.h"

#include <utility>

namespace verbena::soft {

CompletionChannel::CompletionChannel(Context& owner,
                                     std::unique_ptr<EventQueue> events)
    : ibv_comp_channel(), events_(std::move(events)) {
  context = owner.handle();
  fd = events_->fd();
}

std::unique_ptr<CompletionChannel> CompletionChannel::Create(Context& context) {
  std::unique_ptr<EventQueue> events = EventQueue::Create();
  if (events == nullptr) return nullptr;
  return std::unique_ptr<CompletionChannel>(
      new CompletionChannel(context, std::move(events)));
}

}  // namespace verbena::soft
