// Threads of the user's on which coroutines go on.

#ifndef VERBENA_RPC_EXECUTOR_H_
#define VERBENA_RPC_EXECUTOR_H_

#include <coroutine>

namespace verbena {

// Threads of the user's that resume coroutines, such as an event loop. Without
// an Executor, a coroutine goes on where the end of its wait is noticed:
// * for a server's stream, on the thread that polls the network;
// * for a client's call, on the thread that runs callbacks (see UnaryCallback).
//
// Thread-safe. Must outlive all that was given to it.
class Executor {
 public:
  virtual ~Executor() = default;

  // Has `coroutine.resume()` called, once, by a thread of the executor's; not
  // from inside this function, unless the caller is such a thread.
  virtual void Execute(std::coroutine_handle<> coroutine) = 0;
};

// `co_await ResumeOn(&executor);`: the coroutine goes on there.
inline auto ResumeOn(Executor* executor) {
  struct Awaitable {
    Executor* executor;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> coroutine) const {
      executor->Execute(coroutine);
    }
    void await_resume() const noexcept {}
  };
  return Awaitable{executor};
}

namespace internal {

inline void Resume(Executor* executor, std::coroutine_handle<> coroutine) {
  if (executor == nullptr) return coroutine.resume();
  executor->Execute(coroutine);
}

}  // namespace internal

}  // namespace verbena

#endif  // VERBENA_RPC_EXECUTOR_H_
