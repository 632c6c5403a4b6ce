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

#include <utility>

#include "rpc/buffer.h"
#include "rpc/client_reactor.h"
#include "rpc/executor.h"
#include "rpc/support/client_coroutine_support.h"
#include "rpc/support/coroutine_stream.h"

namespace verbena {

namespace internal {

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
