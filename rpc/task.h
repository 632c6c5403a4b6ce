// A coroutine that returns a value, and functions that run several.
//
//   verbena::Task<int> Twice(int x) { co_return 2 * x; }
//   verbena::Task<int> FourTimes(int x) {
//     const int twice = co_await Twice(x);
//     co_return co_await Twice(twice);
//   }
//   int main() { return verbena::SyncWait(FourTimes(3)); }
//
// The library's awaitables can be awaited in coroutines of any other type, too.

#ifndef VERBENA_RPC_TASK_H_
#define VERBENA_RPC_TASK_H_

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <semaphore>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace verbena {

template <typename T>
class Task;

namespace internal {

// The result of a coroutine: a value, or the exception that has left it.
template <typename T>
class TaskResult {
 public:
  // std::monostate stands for void.
  using Value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

  template <typename... Args>
  void Set(Args&&... args) {
    value_.emplace(std::forward<Args>(args)...);
  }
  void SetException() { exception_ = std::current_exception(); }
  bool threw() const { return exception_ != nullptr; }

  // Throws the exception. REQUIRES: one of the two was set. Once.
  Value Take() {
    if (threw()) std::rethrow_exception(exception_);
    return *std::move(value_);
  }

 private:
  std::optional<Value> value_;
  std::exception_ptr exception_;
};

// Starter of a task that is not awaited. Told once, by the thread on which the
// task has ended.
template <typename T>
class TaskObserver {
 public:
  virtual void OnTaskDone(TaskResult<T> result) noexcept = 0;

 protected:
  ~TaskObserver() = default;
};

// Begins a task that nobody awaits, and has `observer` told of its end.
template <typename T>
void StartTask(Task<T> task, TaskObserver<T>* observer);

template <typename T>
class TaskPromiseBase {
 public:
  std::suspend_always initial_suspend() const noexcept { return {}; }
  auto final_suspend() const noexcept { return FinalAwaitable(); }
  void unhandled_exception() { result_.SetException(); }

  void set_continuation(std::coroutine_handle<> continuation) {
    continuation_ = continuation;
  }
  void set_observer(TaskObserver<T>* observer) { observer_ = observer; }
  TaskResult<T>& result() { return result_; }

 private:
  // Resumes the awaiter of the task, or tells the observer; then nobody owns
  // the coroutine.
  struct FinalAwaitable {
    bool await_ready() const noexcept { return false; }
    template <typename Promise>
    std::coroutine_handle<> await_suspend(
        std::coroutine_handle<Promise> coroutine) const noexcept {
      TaskPromiseBase& promise = coroutine.promise();
      if (promise.observer_ == nullptr) return promise.continuation_;
      TaskObserver<T>* const observer = promise.observer_;
      TaskResult<T> result = std::move(promise.result_);
      coroutine.destroy();
      observer->OnTaskDone(std::move(result));
      return std::noop_coroutine();
    }
    void await_resume() const noexcept {}
  };

  TaskResult<T> result_;
  std::coroutine_handle<> continuation_;
  TaskObserver<T>* observer_ = nullptr;
};

template <typename T>
class TaskPromise : public TaskPromiseBase<T> {
 public:
  Task<T> get_return_object();
  template <typename Value>
  void return_value(Value&& value) {
    this->result().Set(std::forward<Value>(value));
  }
};

template <>
class TaskPromise<void> : public TaskPromiseBase<void> {
 public:
  Task<void> get_return_object();
  void return_void() { result().Set(); }
};

}  // namespace internal

// A coroutine that has not begun. It begins when it is awaited, which is
// allowed once. When it has ended, its awaiter goes on, on the same thread. An
// exception that leaves it is thrown at the awaiter.
//
// Owns the coroutine. A task that has begun must not be destroyed before it has
// ended, because the operation it waits for would resume it. Cancel that
// operation instead (ClientContext::TryCancel()).
template <typename T = void>
class [[nodiscard]] Task {
 public:
  // The name is the standard's.
  using promise_type = internal::TaskPromise<T>;  // NOLINT

  Task(Task&& other) noexcept
      : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (coroutine_) coroutine_.destroy();
  }

  auto operator co_await() && noexcept {
    struct Awaitable {
      std::coroutine_handle<promise_type> coroutine;
      bool await_ready() const noexcept { return false; }
      std::coroutine_handle<> await_suspend(
          std::coroutine_handle<> awaiter) const noexcept {
        coroutine.promise().set_continuation(awaiter);
        return coroutine;
      }
      T await_resume() const {
        return static_cast<T>(coroutine.promise().result().Take());
      }
    };
    return Awaitable{coroutine_};
  }

 private:
  friend promise_type;
  friend void internal::StartTask<T>(Task task,
                                     internal::TaskObserver<T>* observer);
  explicit Task(std::coroutine_handle<promise_type> coroutine)
      : coroutine_(coroutine) {}

  std::coroutine_handle<promise_type> coroutine_;
};

namespace internal {

template <typename T>
void StartTask(Task<T> task, TaskObserver<T>* observer) {
  const auto coroutine = std::exchange(task.coroutine_, nullptr);
  coroutine.promise().set_observer(observer);
  coroutine.resume();
}

template <typename T>
Task<T> TaskPromise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}

inline Task<void> TaskPromise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}

// Resumes a coroutine when `tasks` tasks have ended.
class TaskCountdown {
 public:
  explicit TaskCountdown(size_t tasks) : left_(tasks + 1) {}

  // Called when all tasks have begun. Returns whether some have not ended yet,
  // so that the coroutine is resumed later.
  bool Wait(std::coroutine_handle<> coroutine) {
    coroutine_ = coroutine;
    return left_.fetch_sub(1, std::memory_order_acq_rel) != 1;
  }
  void OneEnded() {
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      coroutine_.resume();
    }
  }

 private:
  std::atomic<size_t> left_;
  std::coroutine_handle<> coroutine_;
};

template <typename T>
class CountedTask final : public TaskObserver<T> {
 public:
  explicit CountedTask(TaskCountdown* countdown) : countdown_(countdown) {}
  void OnTaskDone(TaskResult<T> result) noexcept override {
    result_ = std::move(result);
    countdown_->OneEnded();
  }
  auto Take() { return result_.Take(); }

 private:
  TaskCountdown* const countdown_;
  TaskResult<T> result_;
};

// Begins tasks, by `start`, and waits for all of them.
template <typename Start>
class AllTasks {
 public:
  AllTasks(TaskCountdown& countdown, Start start)
      : countdown_(countdown), start_(std::move(start)) {}
  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> coroutine) {
    start_();
    return countdown_.Wait(coroutine);
  }
  void await_resume() const noexcept {}

 private:
  TaskCountdown& countdown_;
  Start start_;
};

template <typename T>
class SyncWaiter final : public TaskObserver<T> {
 public:
  void OnTaskDone(TaskResult<T> result) noexcept override {
    result_ = std::move(result);
    done_.release();
  }
  T Wait() {
    done_.acquire();
    return static_cast<T>(result_.Take());
  }

 private:
  TaskResult<T> result_;
  std::binary_semaphore done_{0};
};

}  // namespace internal

// Begins all tasks, and ends when all of them have. Returns their values in the
// same order (std::monostate for void). If some throw, the exception of the
// first one in that order is thrown at the awaiter.
template <typename T>
Task<std::vector<typename internal::TaskResult<T>::Value>> WhenAll(
    std::vector<Task<T>> tasks) {
  internal::TaskCountdown countdown(tasks.size());
  std::vector<internal::CountedTask<T>> counted;
  counted.reserve(tasks.size());
  for (size_t i = 0; i < tasks.size(); ++i) counted.emplace_back(&countdown);
  co_await internal::AllTasks(countdown, [&] {
    for (size_t i = 0; i < tasks.size(); ++i) {
      internal::StartTask(std::move(tasks[i]), &counted[i]);
    }
  });
  std::vector<typename internal::TaskResult<T>::Value> values;
  values.reserve(counted.size());
  for (auto& task : counted) values.push_back(task.Take());
  co_return values;
}

// As WhenAll() above, but for tasks of several types.
template <typename... T>
Task<std::tuple<typename internal::TaskResult<T>::Value...>> WhenAll(
    Task<T>... tasks) {
  internal::TaskCountdown countdown(sizeof...(tasks));
  // Each CountedTask is made in its place, from the same pointer.
  std::tuple<internal::CountedTask<T>...> counted(
      (static_cast<void>(tasks), &countdown)...);
  co_await internal::AllTasks(countdown, [&] {
    std::apply(
        [&](auto&... task) {
          (internal::StartTask(std::move(tasks), &task), ...);
        },
        counted);
  });
  // In a list in braces, which is evaluated from left to right.
  co_return std::apply(
      [](auto&... task) {
        return std::tuple<typename internal::TaskResult<T>::Value...>{
            task.Take()...};
      },
      counted);
}

// Begins a task and blocks until it has ended: for main() and for tests. Not to
// be called on a thread that the task needs in order to go on.
template <typename T>
T SyncWait(Task<T> task) {
  internal::SyncWaiter<T> waiter;
  internal::StartTask(std::move(task), &waiter);
  return waiter.Wait();
}

}  // namespace verbena

#endif  // VERBENA_RPC_TASK_H_
