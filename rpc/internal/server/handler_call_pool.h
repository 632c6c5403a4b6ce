// The HandlerCalls of one poller.

#ifndef VERBENA_RPC_INTERNAL_SERVER_HANDLER_CALL_POOL_H_
#define VERBENA_RPC_INTERNAL_SERVER_HANDLER_CALL_POOL_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "rpc/internal/metrics/method_counters.h"
#include "rpc/internal/server/call_gate.h"
#include "rpc/internal/server/call_limit.h"
#include "rpc/internal/server/handler_call.h"
#include "rpc/internal/server/method_registry.h"
#include "rpc/internal/server/slow_calls.h"
#include "rpc/internal/server/thread_pool.h"
#include "transport/base/counter.h"
#include "transport/base/rare_warning.h"
#include "transport/polling/poller.h"
#include "transport/polling/task.h"

namespace verbena::internal {

// Makes calls as they are needed and keeps them for later ones of the same
// method, so that a server that is warm allocates nothing.
//
// Confined to its poller. The registry (complete), the limits of calls, of
// which those that are taken have entered what they count for, the threads, the
// gate, which may be null, and `blocking`, which has an element for each of its
// methods, must outlive it, and every call must be back when it is destroyed.
class HandlerCallPool {
 public:
  HandlerCallPool(const MethodRegistry& registry, CallLimits& limits,
                  ThreadPool* threads, std::vector<BlockingMethod>& blocking,
                  const CallGate* gate, const ReplyLimits& reply_limits);
  HandlerCallPool(const HandlerCallPool&) = delete;
  HandlerCallPool& operator=(const HandlerCallPool&) = delete;
  ~HandlerCallPool() = default;

  // Ready for Begin(). Comes back by itself when the call is over.
  HandlerCall* Take(const MethodRegistry::Method& method);

  // Posts `task`, from any thread, which may be one of the user's: by the time
  // it is out of here the task may have run, and the call have ended.
  void Post(transport::Poller& poller, transport::Task* task) {
    posting_.fetch_add(1, std::memory_order_relaxed);
    poller.Post(task);
    posting_.fetch_sub(1, std::memory_order_release);
  }
  // Waits until nobody is in Post(). REQUIRES: all calls are over.
  void AwaitPosters() const;

  // The limits that keep calls from their handlers.
  enum class Limit : uint8_t { kCalls, kStreams, kQueue, kWorkers };
  // A call was refused for one of them, as `text` says: counts it, and logs it
  // now and then.
  void NoteRefusal(Limit limit, absl::string_view text);
  // The client of a call gave up while that waited for a worker: likewise.
  void NoteUnserved(absl::string_view method_name);
  // A call came for a method that is not there.
  void NoteUnknown() { unknown_methods_.Add(); }

  // The counts; any thread. Those of the methods are by their index.
  const MethodCounters& counters(int index) const {
    return counters_[static_cast<size_t>(index)];
  }
  uint64_t refusals(Limit limit) const {
    return refusals_[static_cast<size_t>(limit)].value();
  }
  // On the poller.
  SlowCalls& slow_calls() { return slow_calls_; }
  uint64_t unknown_methods() const { return unknown_methods_.value(); }

  // `call` is over and may serve another one.
  void Recycle(HandlerCall* call);

 private:
  // Calls kept of one method.
  static constexpr size_t kKept = 256;

  std::atomic<int> posting_{0};  // Threads in Post().
  CallLimits& limits_;
  ThreadPool* const threads_;
  std::vector<BlockingMethod>& blocking_;  // By the method's index.
  const CallGate* const gate_;
  const ReplyLimits reply_limits_;
  // By Limit.
  std::array<base::Counter, 4> refusals_;
  std::array<base::RareWarning, 4> warnings_;
  base::Counter unknown_methods_;
  SlowCalls slow_calls_;
  // These two by the method's index in the registry.
  std::vector<MethodCounters> counters_;
  std::vector<std::vector<std::unique_ptr<HandlerCall>>> free_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVER_HANDLER_CALL_POOL_H_
