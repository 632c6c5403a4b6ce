#include "rpc/internal/server/handler_call_pool.h"

#include <thread>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"

namespace verbena::internal {

HandlerCallPool::HandlerCallPool(const MethodRegistry& registry,
                                 CallLimits& limits, ThreadPool* threads,
                                 std::vector<BlockingMethod>& blocking,
                                 const CallGate* gate,
                                 const ReplyLimits& reply_limits)
    : limits_(limits),
      threads_(threads),
      blocking_(blocking),
      gate_(gate),
      reply_limits_(reply_limits),
      counters_(static_cast<size_t>(registry.size())),
      free_(registry.size()) {}

HandlerCall* HandlerCallPool::Take(const MethodRegistry::Method& method) {
  auto& free = free_[method.index];
  if (free.empty()) {
    // Workers parse the large requests of asynchronous methods.
    const bool workers =
        method.mode != HandlerMode::kInline || method.method->asynchronous();
    return new HandlerCall(this, method.method, method.index,
                           workers ? threads_ : nullptr,
                           workers ? &blocking_[method.index] : nullptr, gate_,
                           reply_limits_, &counters_[method.index]);
  }
  HandlerCall* const call = free.back().release();
  free.pop_back();
  return call;
}

void HandlerCallPool::NoteRefusal(Limit limit, absl::string_view text) {
  refusals_[static_cast<size_t>(limit)].Add();
  warnings_[static_cast<size_t>(limit)].Say(
      absl::StrCat("calls are refused: ", text));
}

void HandlerCallPool::NoteUnserved(absl::string_view method_name) {
  refusals_[static_cast<size_t>(Limit::kWorkers)].Add();
  warnings_[static_cast<size_t>(Limit::kWorkers)].Say(
      absl::StrCat("a call of ", method_name,
                   " waited for a worker until its client had given up "
                   "(ServerBuilder::SetMaxWorkerThreads): one method, and one "
                   "client, has seven eighths of them at the most"));
}

void HandlerCallPool::AwaitPosters() const {
  // Each is a few instructions from its end.
  while (posting_.load(std::memory_order_acquire) > 0) {
    std::this_thread::yield();
  }
}

void HandlerCallPool::Recycle(HandlerCall* call) {
  limits_.calls.Leave();
  if (ABSL_PREDICT_FALSE(call->streams())) limits_.streams.Leave();
  std::unique_ptr<HandlerCall> owned(call);
  auto& free = free_[call->method_index()];
  if (free.size() < kKept && !call->HoldsTooMuch()) {
    free.push_back(std::move(owned));
  }
}

}  // namespace verbena::internal
