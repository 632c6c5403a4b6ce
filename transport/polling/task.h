// A piece of work that one thread hands to another.

#ifndef VERBENA_TRANSPORT_POLLING_TASK_H_
#define VERBENA_TRANSPORT_POLLING_TASK_H_

#include "transport/base/mpsc_queue.h"

namespace verbena::transport {

// The poster owns a task, and keeps it alive until Run() begins. A task stands
// in one queue at a time: that of a poller (Poller::Post()), of the threads of
// a poller (PollerThreads::Post()), or of a pool of workers. An object that
// goes from one to the next notes for which step it is posted.
class Task : public base::MpscNode {
 public:
  // May destroy the task.
  virtual void Run() = 0;

 protected:
  ~Task() = default;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_POLLING_TASK_H_
