// An opened device, and its protection domains.

#ifndef VERBENA_TRANSPORT_SOFT_CONTEXT_H_
#define VERBENA_TRANSPORT_SOFT_CONTEXT_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <memory>

#include "transport/soft/event_queue.h"

namespace verbena::soft {

class SoftDevice;

// An ibv_context of the software device: the five data-path verbs and the queue
// of asynchronous events.
//
// The objects made in it must be destroyed first (close_device answers EBUSY).
// Thread-safe.
class Context final : public ibv_context {
 public:
  // Null, with errno, when the process is out of descriptors.
  static std::unique_ptr<Context> Create(SoftDevice& device);

  static Context* From(ibv_context* context) {
    return static_cast<Context*>(context);
  }

  SoftDevice& soft_device() { return device_; }
  EventQueue& async_events() { return *async_events_; }

  // Objects made in this context.
  std::atomic<int>& children() { return children_; }

 private:
  Context(SoftDevice& device, std::unique_ptr<EventQueue> async_events);

  SoftDevice& device_;
  const std::unique_ptr<EventQueue> async_events_;
  std::atomic<int> children_{0};
};

// A protection domain. The context outlives it. Thread-safe.
class ProtectionDomain final : public ibv_pd {
 public:
  explicit ProtectionDomain(Context& owner) : ibv_pd() { context = &owner; }

  static ProtectionDomain* From(ibv_pd* pd) {
    return static_cast<ProtectionDomain*>(pd);
  }

  Context& owner() const { return *Context::From(context); }

  // Regions, queue pairs and shared receive queues made in this domain.
  std::atomic<int>& children() { return children_; }

 private:
  std::atomic<int> children_{0};
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CONTEXT_H_
