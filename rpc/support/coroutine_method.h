// The methods of a generated CoroutineService.

#ifndef VERBENA_RPC_SUPPORT_COROUTINE_METHOD_H_
#define VERBENA_RPC_SUPPORT_COROUTINE_METHOD_H_

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rpc/server_context.h"
#include "rpc/server_reactor.h"
#include "rpc/stream.h"
#include "rpc/support/coroutine_stream.h"
#include "rpc/support/method.h"
#include "rpc/support/typed_method.h"
#include "rpc/task.h"

namespace verbena::internal {

// Runs a handler, and ends its call with what that returns.
class ServerCoroutineReactor final : public CoroutineReactor<ServerReactor>,
                                     public TaskObserver<absl::Status> {
 public:
  // `method` must outlive it.
  explicit ServerCoroutineReactor(const std::string* method)
      : method_(*method) {}

  void set_task(Task<absl::Status> task) { task_.emplace(std::move(task)); }

  void OnBound() override { StartTask(*std::move(task_), this); }
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

  ServerReactor* Start(ServerCallState* call,
                       CallMessages* messages) const override {
    auto* typed = static_cast<Messages*>(messages);
    ServerCoroutineReactor& reactor = typed->reactor.emplace(&full_name());
    reactor.set_task(Call(&typed->context.emplace(call), typed));
    return &reactor;
  }

 private:
  static constexpr bool kStreams = !std::is_same_v<Stream, NoMessage>;

  // With what the handler uses beside its messages.
  struct Messages final : TypedMessages<Request, Response> {
    std::optional<ServerContext> context;
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

}  // namespace verbena::internal

#endif  // VERBENA_RPC_SUPPORT_COROUTINE_METHOD_H_
