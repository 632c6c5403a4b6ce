#include "rpc/internal/server/handler_call_pool.h"

#include <utility>

#include "absl/base/optimization.h"

namespace verbena::internal {

HandlerCallPool::HandlerCallPool(const MethodRegistry& registry,
                                 CallLimits& limits,
                                 std::vector<BlockingMethod>& blocking,
                                 ThreadPool* threads, const CallGate* gate,
                                 const ReplyLimits& reply_limits)
    : limits_(limits),
      blocking_(blocking),
      share_(threads, gate, reply_limits),
      counters_(static_cast<size_t>(registry.size())),
      free_(registry.size()) {}

HandlerCall* HandlerCallPool::Take(const MethodRegistry::Method& method) {
  auto& free = free_[method.index];
  if (free.empty()) {
    // Workers parse the large requests of asynchronous methods.
    const bool workers =
        method.mode != HandlerMode::kInline || method.method->asynchronous();
    return new HandlerCall(this, &share_, method,
                           workers ? &blocking_[method.index] : nullptr,
                           &counters_[method.index]);
  }
  HandlerCall* const call = free.back().release();
  free.pop_back();
  return call;
}

void HandlerCallPool::Recycle(HandlerCall* call) {
  limits_.calls.Leave();
  if (ABSL_PREDICT_FALSE(call->streams())) limits_.streams.Leave();
  // Destroyed at the end of this function, unless it is kept.
  std::unique_ptr<HandlerCall> owned(call);
  auto& free = free_[call->method_index()];
  if (free.size() < kKept && !call->HoldsTooMuch()) {
    free.push_back(std::move(owned));
  }
}

}  // namespace verbena::internal
