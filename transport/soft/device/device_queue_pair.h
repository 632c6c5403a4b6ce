// The interface of a queue pair to the device.

#ifndef VERBENA_TRANSPORT_SOFT_DEVICE_DEVICE_QUEUE_PAIR_H_
#define VERBENA_TRANSPORT_SOFT_DEVICE_DEVICE_QUEUE_PAIR_H_

#include <infiniband/verbs.h>

#include "transport/soft/base/engine.h"

namespace verbena::soft {

// A queue pair as the device sees it, whatever its type: it has a number in
// the directory, its engine ticks it, and it is told what happens to the device
// as a whole.
class DeviceQueuePair : public EngineMember {
 public:
  // Returns the handle that users hold. The type in it does not change.
  virtual ibv_qp* handle() = 0;

  // Called when a port of the device has gone down or come up.
  virtual void LookAtPath() = 0;

  // Waits until a copy that was under way at the last
  // BiasedLock::FenceAllThreads() is finished.
  virtual void WaitForDataPath() = 0;

  // Tells the peer what has been executed, which polls leave for later.
  virtual void Acknowledge() = 0;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_DEVICE_DEVICE_QUEUE_PAIR_H_
