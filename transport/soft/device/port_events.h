// Asynchronous events about the ports, for every open context.

#ifndef VERBENA_TRANSPORT_SOFT_DEVICE_PORT_EVENTS_H_
#define VERBENA_TRANSPORT_SOFT_DEVICE_PORT_EVENTS_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/address/gid_table.h"
#include "transport/soft/base/engine.h"
#include "transport/soft/base/event_queue.h"

namespace verbena::soft {

// Knows the event queues of the open contexts of the device, and tells them
// when the addresses of the host have changed (IBV_EVENT_GID_CHANGE). It asks
// the kernel for that only from the first reader of events on, so a process
// without one has no thread and no socket for it.
//
// Thread-safe. The engine and the table outlive it; it lives as long as the
// process.
class PortEvents {
 public:
  PortEvents(Engine& engine, GidTable& gids) : engine_(engine), gids_(gids) {}
  PortEvents(const PortEvents&) = delete;
  PortEvents& operator=(const PortEvents&) = delete;

  // `context_events` is borrowed until Remove().
  void Add(EventQueue* context_events);
  void Remove(EventQueue* context_events);

  // Somebody reads events: from now on addresses are watched. They are not if
  // the kernel has no netlink socket for us. If the engine's thread cannot be
  // started, the next call tries again.
  void OnReader();

  // Tells every context of an event of `port`.
  void Raise(ibv_event_type type, uint8_t port);

  // Raises IBV_EVENT_GID_CHANGE if the table is not what it was when this was
  // last called, or when watching began.
  void CompareGids();

 private:
  void OnHostChanged();
  std::vector<ibv_gid> Gids() const;

  Engine& engine_;
  GidTable& gids_;

  base::Mutex mutex_;
  // The queue of each context, and the source that its port events are counted
  // in. Nobody waits for those counts, because ports are not destroyed.
  std::map<EventQueue*, EventQueue::Source> contexts_ ABSL_GUARDED_BY(mutex_);
  bool read_ ABSL_GUARDED_BY(mutex_) = false;
  base::UniqueFd socket_;  // Constant from the first reader on.
  std::vector<ibv_gid> gids_seen_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_DEVICE_PORT_EVENTS_H_
