// Coroutines of Verbena's on an event loop of Asio's.

#ifndef VERBENA_EXAMPLES_COROUTINES_ASIO_EXECUTOR_H_
#define VERBENA_EXAMPLES_COROUTINES_ASIO_EXECUTOR_H_

#include <coroutine>
#include <exception>

#include "asio/io_context.hpp"
#include "asio/post.hpp"
#include "asio/steady_timer.hpp"
#include "rpc/executor.h"

namespace weather {

// Resumes coroutines on the threads that run `loop`, which must outlive it.
class AsioExecutor final : public verbena::Executor {
 public:
  explicit AsioExecutor(asio::io_context* loop) : loop_(*loop) {}

  void Execute(std::coroutine_handle<> coroutine) override {
    asio::post(loop_, [coroutine] { coroutine.resume(); });
  }

 private:
  asio::io_context& loop_;
};

// `co_await Expires(&timer)` waits until the timer expires, and continues on
// its loop. Other callbacks of Asio can be made awaitable in the same way.
inline auto Expires(asio::steady_timer* timer) {
  struct Awaitable {
    asio::steady_timer& timer;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> coroutine) {
      timer.async_wait([coroutine](auto /*error*/) { coroutine.resume(); });
    }
    void await_resume() const noexcept {}
  };
  return Awaitable{*timer};
}

// The return type of a coroutine that nobody awaits. The coroutine begins at
// once, and destroys itself when it ends. A coroutine of any type can await
// Verbena's calls.
struct Detached {
  struct promise_type {
    Detached get_return_object() const noexcept { return {}; }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { std::terminate(); }
  };
};

}  // namespace weather

#endif  // VERBENA_EXAMPLES_COROUTINES_ASIO_EXECUTOR_H_
