// The HandlerCalls of one poller.

#ifndef VERBENA_RPC_INTERNAL_SERVER_HANDLER_CALL_POOL_H_
#define VERBENA_RPC_INTERNAL_SERVER_HANDLER_CALL_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "rpc/internal/metrics/method_counters.h"
#include "rpc/internal/server/call_limit.h"
#include "rpc/internal/server/handler_call.h"
#include "rpc/internal/server/handler_guard.h"
#include "rpc/internal/server/method_registry.h"
#include "rpc/internal/server/poller_share.h"
#include "rpc/internal/server/thread_pool.h"
#include "transport/base/counter.h"

namespace verbena::internal {

// Makes calls as they are needed and keeps them for later ones of the same
// method, so that a server that is warm allocates nothing.
//
// Confined to its poller. The registry (complete), the limits of calls, of
// which those that are taken have entered what they count for, what `share`
// names, and `blocking`, which has an element for each of the methods, must
// outlive it, and every call must be back when it is destroyed.
class HandlerCallPool final : public HandlerCall::Owner {
 public:
  HandlerCallPool(const MethodRegistry& registry, CallLimits& limits,
                  std::vector<BlockingMethod>& blocking, ThreadPool* threads,
                  const CallGate* gate, const ReplyLimits& reply_limits);
  HandlerCallPool(const HandlerCallPool&) = delete;
  HandlerCallPool& operator=(const HandlerCallPool&) = delete;
  ~HandlerCallPool() = default;

  // Ready for Begin(). Comes back by itself when the call is over.
  HandlerCall* Take(const MethodRegistry::Method& method);

  PollerShare& share() { return share_; }
  // A call came for a method that is not there.
  void NoteUnknown() { unknown_methods_.Add(); }

  // The counts; any thread. Those of the methods are by their index.
  const MethodCounters& counters(int index) const {
    return counters_[static_cast<size_t>(index)];
  }
  uint64_t unknown_methods() const { return unknown_methods_.value(); }

  void Recycle(HandlerCall* call) override;

 private:
  // Calls kept of one method.
  static constexpr size_t kKept = 256;

  CallLimits& limits_;
  std::vector<BlockingMethod>& blocking_;  // By the method's index.
  PollerShare share_;
  base::Counter unknown_methods_;
  // These two by the method's index in the registry.
  std::vector<MethodCounters> counters_;
  std::vector<std::vector<std::unique_ptr<HandlerCall>>> free_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVER_HANDLER_CALL_POOL_H_
