// The calls behind what a client's coroutines await.

#ifndef VERBENA_RPC_SUPPORT_CLIENT_COROUTINE_SUPPORT_H_
#define VERBENA_RPC_SUPPORT_CLIENT_COROUTINE_SUPPORT_H_

#include <atomic>
#include <coroutine>
#include <utility>

#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"
#include "rpc/executor.h"
#include "rpc/support/coroutine_stream.h"

namespace verbena::internal {

// A unary call. `Start` is called with the callback that takes its status. The
// arguments of the stub's method must live until the call was awaited.
template <typename Start>
class [[nodiscard]] UnaryAwaitable {
 public:
  UnaryAwaitable(Executor* executor, Start start)
      : executor_(executor), start_(std::move(start)) {}

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> coroutine) {
    // The callback may destroy *this before start() returns.
    Start start = std::move(start_);
    start([this, coroutine](absl::Status status) {
      status_ = std::move(status);
      Resume(executor_, coroutine);
    });
  }
  absl::Status await_resume() { return std::move(status_); }

 private:
  Executor* const executor_;
  Start start_;
  absl::Status status_;
};

// The reactor of a stream that a coroutine uses. It has a hold, so OnDone()
// comes only when the coroutine awaits the end.
template <typename Reactor>
class ClientCoroutineReactor final : public CoroutineReactor<Reactor> {
 public:
  explicit ClientCoroutineReactor(Executor* executor) {
    this->set_executor(executor);
    this->AddHold();
  }

  // For a method that streams only its requests: keeps `response` for Finish().
  // The read starts only when the coroutine awaits the end: if it leaves
  // before, nobody may write to the response.
  void ReadResponse(google::protobuf::MessageLite* response) {
    response_ = response;
  }

  bool HearsOfInitialMetadata() const override { return false; }
  void OnWritesDoneDone(bool /*ok*/) override {}
  // Keeps the status here, so that OnDone() gets no second reference to it on
  // another thread.
  absl::Status FinalStatus(absl::Status status) override {
    status_ = Reactor::FinalStatus(std::move(status));
    return absl::OkStatus();
  }
  void OnDone(const absl::Status& status) override {
    // If there is no call at all, FinalStatus() was not called.
    if (!status.ok()) status_ = status;
    if (abandoned_) return delete this;
    // OnDone() and FinishAwaitable meet here: the second one resumes
    // the coroutine.
    if (meeting_.exchange(true, std::memory_order_acq_rel)) {
      Resume(this->executor(), coroutine_);
    }
  }

  // The stream's owner, whose coroutine does not wait, no longer needs this.
  void Drop() {
    if (finished_ || !this->has_call()) return delete this;
    abandoned_ = true;
    this->Abandon();
    this->RemoveHold();
  }

  class [[nodiscard]] FinishAwaitable {
   public:
    explicit FinishAwaitable(ClientCoroutineReactor* reactor)
        : reactor_(*reactor) {}
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> coroutine) {
      reactor_.coroutine_ = coroutine;
      if (!std::exchange(reactor_.finished_, true)) {
        if (reactor_.response_ != nullptr) {
          reactor_.Read(reactor_.response_, nullptr);
        } else {
          reactor_.DropUnread();
        }
        reactor_.RemoveHold();
      }
      return !reactor_.meeting_.exchange(true, std::memory_order_acq_rel);
    }
    absl::Status await_resume() { return reactor_.status_; }

   private:
    ClientCoroutineReactor& reactor_;
  };

 private:
  google::protobuf::MessageLite* response_ = nullptr;
  absl::Status status_;  // Set by OnDone().
  std::coroutine_handle<> coroutine_;
  std::atomic<bool> meeting_{false};
  bool finished_ = false;  // The coroutine has asked for the end.
  // The stream was dropped before Finish(). OnDone() deletes this.
  bool abandoned_ = false;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_SUPPORT_CLIENT_COROUTINE_SUPPORT_H_
