// Work that one thread hands to the poller of a connection.

#ifndef VERBENA_TRANSPORT_CONNECTION_POLLER_TASK_H_
#define VERBENA_TRANSPORT_CONNECTION_POLLER_TASK_H_

#include "transport/base/mpsc_queue.h"

namespace verbena::transport {

// Handed over with Poller::Post(); owned by whoever posts it, and alive until
// Run() begins. Run() may destroy the task.
class PollerTask : public base::MpscNode {
 public:
  virtual void Run() = 0;

 protected:
  ~PollerTask() = default;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CONNECTION_POLLER_TASK_H_
