// Keeps calls of a layer under way, and counts them.

#ifndef VERBENA_TOOLS_RPC_BENCH_ECHO_LOOP_H_
#define VERBENA_TOOLS_RPC_BENCH_ECHO_LOOP_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tools/rpc_bench/workload.h"

namespace verbena::bench {

// Calls under way, each in a slot from 0 to Case::outstanding - 1. One thread
// at a time.
class EchoPipe {
 public:
  class Sink {
   public:
    // The call in `slot` has ended. May Start() another one there.
    virtual void OnEnded(int slot, const absl::Status& status) = 0;
    // What ends from now on ends later than what has. To be told only by pipes
    // that do not return from Poll() in between.
    virtual void OnLater() = 0;

   protected:
    ~Sink() = default;
  };

  virtual ~EchoPipe() = default;

  // Begins a call in a slot that has none; it may go out as late as in the next
  // Poll().
  virtual void Start(int slot) = 0;

  // Sends what has begun and tells `sink` what has ended. May sleep until
  // something ends, or if its calls go on by themselves until none is under
  // way, but not beyond `until`; a past `until` means not to. When it fails,
  // all is over and no call will end.
  virtual absl::Status Poll(Sink& sink, absl::Time until) = 0;
};

// Keeps `pipe` as busy as `measured` says, until `duration` has passed after a
// warm-up and all calls have ended.
Sample RunEchoes(EchoPipe& pipe, const Case& measured, absl::Duration duration);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_ECHO_LOOP_H_
