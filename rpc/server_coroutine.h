// Handlers that are coroutines: the methods of a generated CoroutineService.
//
//   verbena::Task<absl::Status> Chat(
//       ServerContext* context,
//       CoroutineServerReaderWriter<Note, Note>* stream) override {
//     Note note;
//     while (co_await stream->Read(&note)) {
//       if (!co_await stream->Write(note)) break;
//     }
//     co_return absl::OkStatus();
//   }
//
// A handler begins on the thread that polls the network. After it has waited
// for its stream it goes on there, or on its Executor. So any number of calls
// may be open at once without a thread each. Between two waits it must take
// microseconds, and must not block. Its arguments live until it has ended. When
// the client cancels, waits end with false.

#ifndef VERBENA_RPC_SERVER_COROUTINE_H_
#define VERBENA_RPC_SERVER_COROUTINE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "rpc/buffer.h"
#include "rpc/coroutine_stream.h"
#include "rpc/executor.h"
#include "rpc/server_context.h"
#include "rpc/server_reactor.h"
#include "rpc/service.h"
#include "rpc/task.h"

namespace verbena {

// `co_await reader->Read(&message)` is true when a message was read (and the
// bytes beside it), false when there will be no more.
template <typename Request>
class CoroutineServerReader {
 public:
  // For the library.
  explicit CoroutineServerReader(internal::CoroutineStream* stream)
      : stream_(stream) {}

  auto Read(Request* message, Buffer* attachment = nullptr) {
    return internal::CoroutineStream::ReadAwaitable(stream_, message,
                                                    attachment);
  }
  // Sets the executor on which the handler goes on after it has waited. Not
  // while it waits.
  void set_executor(Executor* executor) { stream_->set_executor(executor); }

 private:
  internal::CoroutineStream* const stream_;
};

// `co_await writer->Write(message)` is true when the message is serialised,
// which may have to wait for the client to read, false if the call has ended.
template <typename Response>
class CoroutineServerWriter {
 public:
  // For the library.
  explicit CoroutineServerWriter(internal::CoroutineStream* stream)
      : stream_(stream) {}

  auto Write(const Response& message, Attachment attachment = {}) {
    return internal::CoroutineStream::WriteAwaitable(stream_, &message,
                                                     attachment);
  }
  void set_executor(Executor* executor) { stream_->set_executor(executor); }

 private:
  internal::CoroutineStream* const stream_;
};

// For a method that streams both ways. One coroutine may read while
// another writes.
template <typename Response, typename Request>
class CoroutineServerReaderWriter {
 public:
  // For the library.
  explicit CoroutineServerReaderWriter(internal::CoroutineStream* stream)
      : stream_(stream) {}

  auto Read(Request* message, Buffer* attachment = nullptr) {
    return internal::CoroutineStream::ReadAwaitable(stream_, message,
                                                    attachment);
  }
  auto Write(const Response& message, Attachment attachment = {}) {
    return internal::CoroutineStream::WriteAwaitable(stream_, &message,
                                                     attachment);
  }
  void set_executor(Executor* executor) { stream_->set_executor(executor); }

 private:
  internal::CoroutineStream* const stream_;
};

namespace internal {

// Runs a handler, and ends its call with what that returns.
class ServerCoroutineReactor final : public CoroutineReactor<ServerReactor>,
                                     public TaskObserver<absl::Status> {
 public:
  // `method` must outlive it.
  explicit ServerCoroutineReactor(const std::string* method)
      : method_(*method) {}

  void set_task(Task<absl::Status> task) { task_.emplace(std::move(task)); }

  void OnBound() override { std::move(*task_).Start(this); }
  void OnTaskDone(TaskResult<absl::Status> result) noexcept override {
    if (!result.threw()) return Finish(result.Take());
    Finish(absl::UnknownError(
        absl::StrCat(method_, ": the handler threw an exception")));
  }
  void OnDone() override {}
  bool reacts_to_done() const override { return false; }

 private:
  const std::string& method_;
  std::optional<Task<absl::Status>> task_;  // Until it has begun.
};

// A method whose handler is a coroutine. `Stream` is what the handler gets
// beside the messages that are not streamed: see CallbackMethod. NoMessage for
// a unary method.
template <typename Request, typename Response, typename Stream,
          typename Handler>
class CoroutineMethod final : public Method {
 public:
  CoroutineMethod(const char* full_name, Handler handler)
      : Method(full_name), handler_(std::move(handler)) {}

  RpcType type() const override {
    return kStreams ? TypeOfStream<Request, Response>() : RpcType::kUnary;
  }
  bool asynchronous() const override { return true; }
  std::unique_ptr<CallMessages> NewMessages() const override {
    return std::make_unique<Messages>();
  }

  ServerReactor* Start(ServerContext* context,
                       CallMessages* messages) const override {
    auto* typed = static_cast<Messages*>(messages);
    ServerCoroutineReactor& reactor = typed->reactor.emplace(&full_name());
    reactor.set_task(Call(context, typed));
    return &reactor;
  }

 private:
  static constexpr bool kStreams = !std::is_same_v<Stream, NoMessage>;

  // With what the handler uses beside its messages.
  struct Messages final : TypedMessages<Request, Response> {
    std::optional<ServerCoroutineReactor> reactor;
    std::optional<Stream> stream;
  };

  Task<absl::Status> Call(ServerContext* context, Messages* typed) const {
    if constexpr (!kStreams) {
      return handler_(context, typed->typed_request(), typed->typed_response());
    } else {
      Stream* const stream = &typed->stream.emplace(&*typed->reactor);
      if constexpr (!std::is_same_v<Request, NoMessage>) {
        return handler_(context, typed->typed_request(), stream);
      } else if constexpr (!std::is_same_v<Response, NoMessage>) {
        return handler_(context, stream, typed->typed_response());
      } else {
        return handler_(context, stream);
      }
    }
  }

  const Handler handler_;
};

template <typename Request, typename Response, typename Stream,
          typename Handler>
std::unique_ptr<Method> NewCoroutineMethod(const char* full_name,
                                           Handler handler) {
  return std::make_unique<CoroutineMethod<Request, Response, Stream, Handler>>(
      full_name, std::move(handler));
}

// Returns a task that ends with `status` at once, for a method that is
// not overridden.
inline Task<absl::Status> EndedWith(absl::Status status) { co_return status; }

}  // namespace internal

}  // namespace verbena

#endif  // VERBENA_RPC_SERVER_COROUTINE_H_
