// Keeps calls of a layer under way, and counts them.

#ifndef VERBENA_TOOLS_LOAD_ECHO_LOOP_H_
#define VERBENA_TOOLS_LOAD_ECHO_LOOP_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tools/load/workload.h"

namespace verbena::bench {

// The calls under way, each in its own slot: 0 to Case::outstanding - 1.
// Not thread-safe.
class EchoPipe {
 public:
  class Sink {
   public:
    // The call in `slot` has ended. May Start() another one there.
    virtual void OnEnded(int slot, const absl::Status& status) = 0;
    // The calls that end after this have ended later than those before, so the
    // sink reads the clock again. RunEchoes() does so before each Poll(), so
    // only pipes that end calls at several times within one Poll() call this.
    virtual void OnLater() = 0;

   protected:
    ~Sink() = default;
  };

  virtual ~EchoPipe() = default;

  // Begins a call in `slot`, which must have none. The call may go out as late
  // as in the next Poll().
  virtual void Start(int slot) = 0;

  // Sends the calls that have begun, and tells `sink` which have ended. May
  // sleep until a call ends, but not beyond `until`; if `until` is past, does
  // not sleep. If its calls go on by themselves, it may sleep until none is
  // under way. If it fails, no further call will end.
  virtual absl::Status Poll(Sink& sink, absl::Time until) = 0;
};

// Keeps `pipe` as busy as `measured` says, until `duration` has passed after a
// warm-up and all calls have ended.
Sample RunEchoes(EchoPipe& pipe, const Case& measured, absl::Duration duration);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_LOAD_ECHO_LOOP_H_
