// A provider that wraps another one and fails on a plan, for tests.
//
// Control verbs and the connection manager are wrapped by tables. The five
// functions of the data path are called through ibv_context::ops, and the
// device below must be given its own context: so the pointers of a context are
// replaced in place when the wrapper first sees it (open_device, an id that is
// bound or resolved), for the rest of its life, and the old ones are kept in a
// side table. Calls for queues that were made through the other provider's own
// table are passed through as they are, though they share the context: one end
// of a connection may be faulty and the other not. The wrapper should see a
// context before other threads use it; it does so when an id is bound.
//
// Destroying and acknowledging fail only when a plan names them.

#ifndef VERBENA_TRANSPORT_FAULTY_FAULTY_PROVIDER_H_
#define VERBENA_TRANSPORT_FAULTY_FAULTY_PROVIDER_H_

#include <cstddef>

#include "transport/faulty/fault_plan.h"
#include "transport/verbs/provider.h"

namespace verbena::transport {

// There can be one at a time in a process, because a table of plain functions
// cannot carry a context. `base` and `plan` must outlive it, and all objects
// that were made through it must be destroyed before it. Thread-safe.
class FaultyProvider {
 public:
  FaultyProvider(const Provider& base, FaultPlan& plan);
  FaultyProvider(const FaultyProvider&) = delete;
  FaultyProvider& operator=(const FaultyProvider&) = delete;
  ~FaultyProvider();

  // The wrapped provider, named as `base` is. Lives as long as this object.
  const Provider& provider() const { return provider_; }

  // How many domains, regions, channels, queues, queue pairs and ids were made
  // through it and not ended. Any that are left after a user has cleaned up
  // have leaked.
  size_t objects() const;

  // Follows `plan` from now on, counting anew.
  void SetPlan(FaultPlan& plan);

 private:
  Provider provider_;
  const Provider& base_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_FAULTY_FAULTY_PROVIDER_H_
