// Objects that the calls of one poller of a server share.

#ifndef VERBENA_RPC_INTERNAL_SERVER_POLLER_SHARE_H_
#define VERBENA_RPC_INTERNAL_SERVER_POLLER_SHARE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "absl/strings/string_view.h"
#include "rpc/internal/server/handler_guard.h"
#include "rpc/internal/server/handler_pace.h"
#include "rpc/internal/server/reply_builder.h"
#include "rpc/internal/server/slow_calls.h"
#include "rpc/internal/server/thread_pool.h"
#include "transport/base/counter.h"
#include "transport/base/rare_warning.h"
#include "transport/polling/poller.h"
#include "transport/polling/task.h"

namespace verbena::internal {

// State shared by the calls of one method that workers may serve.
struct BlockingMethod {
  // The pace of the method's handlers; for an asynchronous method, of parsing
  // 64 KiB.
  HandlerPace pace;
  ThreadPool::Lane lane;
};

// Calls that did not reach their handlers. On the poller, but the counts on any
// thread.
class Refusals {
 public:
  // The limits that keep calls from their handlers.
  enum class Limit : uint8_t { kCalls, kStreams, kQueue, kWorkers };

  // Counts a call, and logs `text` now and then.
  void Note(Limit limit, absl::string_view text) {
    counts_[static_cast<size_t>(limit)].Add();
    warnings_[static_cast<size_t>(limit)].Say(text);
  }
  uint64_t count(Limit limit) const {
    return counts_[static_cast<size_t>(limit)].value();
  }

 private:
  // By Limit.
  std::array<base::Counter, 4> counts_;
  std::array<base::RareWarning, 4> warnings_;
};

// Posts tasks from any thread, which may be one of the user's: by the time it
// is out of Post() the task may have run, and the call have ended.
class TaskPoster {
 public:
  void Post(transport::Poller& poller, transport::Task* task) {
    posting_.fetch_add(1, std::memory_order_relaxed);
    poller.Post(task);
    posting_.fetch_sub(1, std::memory_order_release);
  }
  // Waits until nobody is in Post(). REQUIRES: all calls are over.
  void AwaitAll() const {
    // Each is a few instructions from its end.
    while (posting_.load(std::memory_order_acquire) > 0) {
      std::this_thread::yield();
    }
  }

 private:
  std::atomic<int> posting_{0};  // Threads in Post().
};

struct PollerShare {
  PollerShare(ThreadPool* its_threads, const CallGate* its_gate,
              const ReplyLimits& limits)
      : threads(its_threads), gate(its_gate), reply_limits(limits) {}

  ThreadPool* const threads;
  const CallGate* const gate;  // Null if nobody looks at calls.
  const ReplyLimits reply_limits;
  Refusals refusals;
  SlowCalls slow_calls;
  TaskPoster poster;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVER_POLLER_SHARE_H_
