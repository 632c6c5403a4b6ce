// Asynchronous events about the ports, for every open context.

#ifndef VERBENA_TRANSPORT_SOFT_DEVICE_PORT_EVENTS_H_
#define VERBENA_TRANSPORT_SOFT_DEVICE_PORT_EVENTS_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/soft/base/event_queue.h"

namespace verbena::soft {

// Knows the event queues of the open contexts of the device. Thread-safe.
class PortEvents {
 public:
  PortEvents() = default;
  PortEvents(const PortEvents&) = delete;
  PortEvents& operator=(const PortEvents&) = delete;

  // `context_events` is borrowed until Remove().
  void Add(EventQueue* context_events);
  void Remove(EventQueue* context_events);

  // Tells every context of an event of `port`.
  void Raise(ibv_event_type type, uint8_t port);

 private:
  base::Mutex mutex_;
  // The queue of each context, and the source that its port events are counted
  // in. Nobody waits for those counts, because ports are not destroyed.
  std::map<EventQueue*, EventQueue::Source> contexts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_DEVICE_PORT_EVENTS_H_
