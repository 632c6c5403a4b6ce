// Completion channels.

#ifndef VERBENA_TRANSPORT_SOFT_QUEUES_COMPLETION_CHANNEL_H_
#define VERBENA_TRANSPORT_SOFT_QUEUES_COMPLETION_CHANNEL_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <memory>

#include "transport/soft/base/event_queue.h"
#include "transport/soft/device/context.h"

namespace verbena::soft {

// Where completion queues that were armed raise their events. Thread-safe.
class CompletionChannel final : public ibv_comp_channel {
 public:
  // Null, with errno, when the process is out of descriptors.
  static std::unique_ptr<CompletionChannel> Create(Context& context);

  static CompletionChannel* From(ibv_comp_channel* channel) {
    return static_cast<CompletionChannel*>(channel);
  }

  EventQueue& events() { return *events_; }
  std::atomic<int>& children() { return children_; }  // Completion queues.

 private:
  CompletionChannel(Context& context, std::unique_ptr<EventQueue> events);

  const std::unique_ptr<EventQueue> events_;
  std::atomic<int> children_{0};
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_QUEUES_COMPLETION_CHANNEL_H_
