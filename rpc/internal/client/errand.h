// Work that a background thread does for a SharedPoller.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_ERRAND_H_
#define VERBENA_RPC_INTERNAL_CLIENT_ERRAND_H_

#include "transport/base/mpsc_queue.h"

namespace verbena::internal {

// What may block, for as long as it likes: a callback of a user's, or looking a
// name up. Given to SharedPoller::AddErrand(), and alive until RunErrand() is
// entered.
class Errand : public base::MpscNode {
 public:
  // Without the polling role. May destroy this.
  virtual void RunErrand() = 0;

 protected:
  ~Errand() = default;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_ERRAND_H_
