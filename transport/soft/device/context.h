// An opened device, and its protection domains.

#ifndef VERBENA_TRANSPORT_SOFT_DEVICE_CONTEXT_H_
#define VERBENA_TRANSPORT_SOFT_DEVICE_CONTEXT_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <memory>

#include "transport/soft/base/event_queue.h"
#include "transport/soft/base/live_handles.h"

namespace verbena::soft {

class SoftDevice;

// A context of the software device: the queue of asynchronous events, and the
// verbs that libibverbs calls through it. The verbs are of a folder above this
// one, so verbs/context_verbs.h fills them in.
//
// Users hold its last part, verbs_context::context. Before that lie the
// extended verbs, which the inline functions of <infiniband/verbs.h> look for
// there; for a verb that is null they return EOPNOTSUPP themselves.
//
// The objects made in it must be destroyed first (close_device answers EBUSY).
// Thread-safe.
class Context final : public verbs_context {
 public:
  // Null, with errno, when the process is out of descriptors.
  static std::unique_ptr<Context> Create(SoftDevice& device);

  // The context behind a handle of this device.
  static Context* From(ibv_context* handle) {
    return static_cast<Context*>(
        reinterpret_cast<verbs_context*>(reinterpret_cast<std::byte*>(handle) -
                                         offsetof(verbs_context, context)));
  }

  ~Context();

  ibv_context* handle() { return &context; }

  SoftDevice& soft_device() { return device_; }
  EventQueue& async_events() { return *async_events_; }

  // Objects made in this context.
  std::atomic<int>& children() { return children_; }
  std::atomic<int>& address_handles() { return address_handles_; }
  // Bytes of device memory that are allocated.
  std::atomic<size_t>& device_memory() { return device_memory_; }

 private:
  Context(SoftDevice& device, std::unique_ptr<EventQueue> async_events);

  SoftDevice& device_;
  const std::unique_ptr<EventQueue> async_events_;
  std::atomic<int> children_{0};
  std::atomic<int> address_handles_{0};
  std::atomic<size_t> device_memory_{0};
  const LiveHandle<ibv_context> live_{&context};
};

// A protection domain, or a parent domain, which stands for the protection
// domain that it was made of. That, and the context, outlive it. Thread-safe.
class ProtectionDomain final : public ibv_pd {
 public:
  explicit ProtectionDomain(Context& owner) : ibv_pd() {
    context = owner.handle();
  }
  // The parent domain of `original`, counted in `users` unless that is null.
  ProtectionDomain(ProtectionDomain& original, std::atomic<int>* users)
      : ibv_pd(), parent_of_(&original), counted_in_(users) {
    context = original.context;
    ++original.children();
    if (users != nullptr) ++*users;
  }
  ~ProtectionDomain() {
    if (is_parent()) --parent_of_->children();
    if (counted_in_ != nullptr) --*counted_in_;
  }

  static ProtectionDomain* From(ibv_pd* pd) {
    return static_cast<ProtectionDomain*>(pd);
  }

  Context& owner() const { return *Context::From(context); }

  bool is_parent() const { return parent_of_ != nullptr; }
  // The domain that decides whether memory may be used: this one, unless it is
  // a parent domain.
  ProtectionDomain& original() { return is_parent() ? *parent_of_ : *this; }

  // Parent domains, regions, queue pairs and shared receive queues made in this
  // domain.
  std::atomic<int>& children() { return children_; }

 private:
  ProtectionDomain* const parent_of_ = nullptr;
  // The count of the thread domain that it was made with; null for none.
  std::atomic<int>* const counted_in_ = nullptr;
  std::atomic<int> children_{0};
  const LiveHandle<ibv_pd> live_{this};
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_DEVICE_CONTEXT_H_
