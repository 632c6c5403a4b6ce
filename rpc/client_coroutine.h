// Calls that coroutines await: what `stub->co()` returns.
//
//   verbena::Task<absl::Status> Talk(RouteGuide::Stub* stub) {
//     verbena::ClientContext context;
//     auto stream = stub->co()->Chat(&context);
//     co_await stream.Write(question);
//     while (co_await stream.Read(&answer)) ...
//     stream.WritesDone();
//     co_return co_await stream.Finish();
//   }
//
// A coroutine goes on where callbacks run (see UnaryCallback), or where an
// Executor says that was given to co(). It must not be destroyed while it
// awaits something of these. To end that early, cancel the call.

#ifndef VERBENA_RPC_CLIENT_COROUTINE_H_
#define VERBENA_RPC_CLIENT_COROUTINE_H_

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "google/protobuf/message_lite.h"
#include "rpc/buffer.h"
#include "rpc/client_reactor.h"
#include "rpc/coroutine_stream.h"
#include "rpc/executor.h"

namespace verbena {

namespace internal {

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

// The base of the three streams below; owns the reactor. If the stream is
// destroyed before Finish(), the call is cancelled.
template <typename Reactor>
class ClientCoroutineStream {
 public:
  // `bind` is called with the reactor, to give it to its call.
  template <typename Bind>
  ClientCoroutineStream(Executor* executor, Bind bind)
      : reactor_(new ClientCoroutineReactor<Reactor>(executor)) {
    bind(static_cast<Reactor*>(reactor_));
    reactor_->StartCall();
  }
  ClientCoroutineStream(ClientCoroutineStream&& other) noexcept
      : reactor_(std::exchange(other.reactor_, nullptr)) {}
  ClientCoroutineStream& operator=(ClientCoroutineStream&&) = delete;
  ~ClientCoroutineStream() {
    if (reactor_ != nullptr) reactor_->Drop();
  }

  // `co_await stream.Finish()` waits until the call has ended, and returns its
  // status. Messages that were not read are dropped. A second Finish() returns
  // the same status.
  auto Finish() {
    return typename ClientCoroutineReactor<Reactor>::FinishAwaitable(reactor_);
  }

 protected:
  ClientCoroutineReactor<Reactor>* reactor() const { return reactor_; }

 private:
  ClientCoroutineReactor<Reactor>* reactor_;
};

}  // namespace internal

// `co_await stream.Read(&message)` is true when a message was read (and the
// bytes beside it), false when there will be no more. One coroutine may read
// while another writes.
template <typename Response>
class CoroutineClientReader final
    : public internal::ClientCoroutineStream<ClientReadReactor<Response>> {
 public:
  using internal::ClientCoroutineStream<
      ClientReadReactor<Response>>::ClientCoroutineStream;

  auto Read(Response* message, Buffer* attachment = nullptr) {
    return internal::CoroutineStream::ReadAwaitable(this->reactor(), message,
                                                    attachment);
  }
};

// `co_await stream.Write(message)` is true when the message is serialised,
// false if the call has ended. The response is there when Finish() says OK.
template <typename Request>
class CoroutineClientWriter final
    : public internal::ClientCoroutineStream<ClientWriteReactor<Request>> {
 public:
  using internal::ClientCoroutineStream<
      ClientWriteReactor<Request>>::ClientCoroutineStream;

  auto Write(const Request& message, Attachment attachment = {}) {
    return internal::CoroutineStream::WriteAwaitable(this->reactor(), &message,
                                                     attachment);
  }
  // No message follows. Does not wait.
  void WritesDone() { this->reactor()->StartWritesDone(); }
  // As WritesDone(), and then as ClientCoroutineStream::Finish().
  auto Finish() {
    WritesDone();
    return internal::ClientCoroutineStream<
        ClientWriteReactor<Request>>::Finish();
  }
};

// For a method that streams both ways: see the two above.
template <typename Request, typename Response>
class CoroutineClientReaderWriter final
    : public internal::ClientCoroutineStream<
          ClientBidiReactor<Request, Response>> {
 public:
  using internal::ClientCoroutineStream<
      ClientBidiReactor<Request, Response>>::ClientCoroutineStream;

  auto Read(Response* message, Buffer* attachment = nullptr) {
    return internal::CoroutineStream::ReadAwaitable(this->reactor(), message,
                                                    attachment);
  }
  auto Write(const Request& message, Attachment attachment = {}) {
    return internal::CoroutineStream::WriteAwaitable(this->reactor(), &message,
                                                     attachment);
  }
  void WritesDone() { this->reactor()->StartWritesDone(); }
};

}  // namespace verbena

#endif  // VERBENA_RPC_CLIENT_COROUTINE_H_
