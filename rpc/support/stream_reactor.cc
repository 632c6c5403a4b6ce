#include "rpc/support/stream_reactor.h"

#include "transport/base/check.h"

namespace verbena::internal {

void FailTooFewHolds() {
  CHECK(false) << "RemoveHold() was called more often than AddHold(): a "
                  "reactor has as many holds removed as were added";
  __builtin_unreachable();
}

void FailSecondCall() {
  CHECK(false) << "a reactor was given to a call while it still has another "
                  "one: use one reactor a call, or wait for OnDone()";
  __builtin_unreachable();
}

void FailNotGiven() {
  CHECK(false) << "StartCall() of a reactor that has no call to start: give it "
                  "to a method of stub->async() first, once for each call";
  __builtin_unreachable();
}

}  // namespace verbena::internal
