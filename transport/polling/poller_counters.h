// Counters of a poller and its connections.

#ifndef VERBENA_TRANSPORT_POLLING_POLLER_COUNTERS_H_
#define VERBENA_TRANSPORT_POLLING_POLLER_COUNTERS_H_

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "transport/base/counter.h"
#include "transport/base/mutex.h"

namespace verbena::transport {

// Counters of the connections of one poller on one device. They only grow
// unless their comment says "up and down".
struct DeviceCounters {
  static constexpr size_t kStates = 5;

  // Connections in a state, by the state's number. Up and down; of those that
  // have closed none are counted.
  std::array<base::Counter, kStates> connections;
  base::Counter begun;              // Connections there ever were.
  base::Counter failed_handshakes;  // Ended before they were open.
  base::Counter unopened;  // Ended because something sealed did not open.
  // Times that the device gave up: the peer did not answer, or had no
  // receive posted.
  base::Counter retries_exceeded;
  base::Counter rnr_retries_exceeded;
  base::Counter credit_waits;  // How often a frame had to wait for a credit.
  // Calls of a client that had to wait for another's end.
  base::Counter slot_waits;
  // Up and down, as of the last tick: bytes registered for frames, bytes
  // registered for bulk data, and how many of the latter are allocated.
  base::Counter frame_bytes;
  base::Counter pool_bytes;
  base::Counter pool_allocated_bytes;
  // At a client, up and down: call slots whose calls have ended for their
  // callers, while the server may still use their memory.
  base::Counter quarantined_calls;
  // At a client, up and down, as of the last tick: pieces of memory that are
  // lent to servers to write replies to.
  base::Counter leases;
};

// Any thread may read the counters. Only the poller's thread counts, except
// that `sleeps` is counted by the thread that sleeps.
class PollerCounters {
 public:
  PollerCounters() = default;
  PollerCounters(const PollerCounters&) = delete;
  PollerCounters& operator=(const PollerCounters&) = delete;

  base::Counter polls;   // Looks at everything once.
  base::Counter arms;    // Times that it has armed its queues, to sleep.
  base::Counter sleeps;  // Times that it has entered the kernel to wait.

  // The counters of the device of that name, for as long as this lives. On the
  // poller's thread, when a connection begins.
  DeviceCounters& Device(const std::string& name) {
    const base::MutexLock lock(mutex_);
    for (const Entry& entry : devices_) {
      if (entry.name == name) return *entry.counters;
    }
    devices_.push_back({name, std::make_unique<DeviceCounters>()});
    return *devices_.back().counters;
  }

  using Visitor =
      absl::FunctionRef<void(absl::string_view, const DeviceCounters&)>;
  // Calls `visitor` for each device there ever was.
  void VisitDevices(Visitor visitor) const {
    const base::MutexLock lock(mutex_);
    for (const Entry& entry : devices_) visitor(entry.name, *entry.counters);
  }

 private:
  struct Entry {
    std::string name;
    std::unique_ptr<DeviceCounters> counters;
  };

  mutable base::Mutex mutex_;
  std::vector<Entry> devices_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_POLLING_POLLER_COUNTERS_H_
