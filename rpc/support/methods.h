// The methods that generated services are made of.

#ifndef VERBENA_RPC_SUPPORT_METHODS_H_
#define VERBENA_RPC_SUPPORT_METHODS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/message_lite.h"
#include "rpc/server_context.h"
#include "rpc/server_reactor.h"
#include "rpc/server_stream.h"
#include "rpc/stream.h"
#include "rpc/support/coroutine_stream.h"
#include "rpc/support/method.h"
#include "rpc/task.h"

namespace verbena::internal {

// Stands for a message that the method streams.
struct NoMessage {};

template <typename Request, typename Response>
class TypedMessages : public CallMessages {
 public:
  google::protobuf::MessageLite* request() override {
    return Erased(&request_);
  }
  google::protobuf::MessageLite* response() override {
    return Erased(&response_);
  }
  size_t SpaceUsed() const override {
    const size_t request = SpaceOf(request_);
    const size_t response = SpaceOf(response_);
    return request > SIZE_MAX - response ? SIZE_MAX : request + response;
  }
  void DropRequest() override { request_ = Request(); }

  const Request* typed_request() const { return &request_; }
  Response* typed_response() { return &response_; }

 private:
  template <typename Message>
  static google::protobuf::MessageLite* Erased(Message* message) {
    if constexpr (std::is_same_v<Message, NoMessage>) {
      return nullptr;
    } else {
      return message;
    }
  }
  template <typename Message>
  static size_t SpaceOf(const Message& message) {
    if constexpr (std::is_same_v<Message, NoMessage>) {
      return 0;
    } else if constexpr (requires { message.SpaceUsedLong(); }) {
      return message.SpaceUsedLong();
    } else {
      return SIZE_MAX;
    }
  }

  Request request_;
  Response response_;
};

// The type of a method that streams the messages that are NoMessage.
template <typename Request, typename Response>
constexpr RpcType TypeOf() {
  constexpr bool kHasRequest = !std::is_same_v<Request, NoMessage>;
  constexpr bool kHasResponse = !std::is_same_v<Response, NoMessage>;
  return kHasRequest && kHasResponse ? RpcType::kUnary
         : kHasRequest               ? RpcType::kServerStreaming
         : kHasResponse              ? RpcType::kClientStreaming
                                     : RpcType::kBidiStreaming;
}

// A method whose handler may block, and returns an absl::Status. `Handler` is
// called with the context and, by `kType`,
//   kUnary              const Request*, Response*
//   kServerStreaming    const Request*, ServerWriter<Response>*
//   kClientStreaming    ServerReader<Request>*, Response*
//   kBidiStreaming      ServerReaderWriter<Response, Request>*
template <RpcType kType, typename Request, typename Response, typename Handler>
class TypedMethod : public Method {
 public:
  TypedMethod(const char* full_name, Handler handler)
      : Method(full_name, kType, /*asynchronous=*/false),
        handler_(std::move(handler)) {}

  std::unique_ptr<CallMessages> NewMessages() const override {
    if constexpr (kType != RpcType::kUnary) return nullptr;
    return std::make_unique<TypedMessages<Request, Response>>();
  }

  absl::Status Run(ServerCallState* call, CallMessages* messages,
                   MessageReaderWriter* stream) const override {
    ServerContext context(call);
    if constexpr (kType == RpcType::kUnary) {
      auto* typed = static_cast<TypedMessages<Request, Response>*>(messages);
      return handler_(&context, typed->typed_request(),
                      typed->typed_response());
    } else if constexpr (kType == RpcType::kServerStreaming) {
      Request request;
      if (!stream->Read(&request, nullptr)) return NoRequest(full_name());
      ServerWriter<Response> writer(stream);
      return handler_(&context, &std::as_const(request), &writer);
    } else if constexpr (kType == RpcType::kClientStreaming) {
      Response response;
      ServerReader<Request> reader(stream);
      absl::Status status = handler_(&context, &reader, &response);
      // If the response can't be written, the call has ended, and has its
      // status.
      if (status.ok()) stream->Write(response, {});
      return status;
    } else {
      ServerReaderWriter<Response, Request> typed(stream);
      return handler_(&context, &typed);
    }
  }

 private:
  const Handler handler_;
};

// `full_name` is "package.Service/Method".
template <RpcType kType, typename Request, typename Response, typename Handler>
std::unique_ptr<Method> NewTypedMethod(const char* full_name, Handler handler) {
  return std::make_unique<TypedMethod<kType, Request, Response, Handler>>(
      full_name, std::move(handler));
}

// Calls `handler` with the context, with the request and the response as far as
// they are not NoMessage, because they are streamed, and with the stream, if it
// gets one, in the place of what is streamed.
template <typename Handler, typename Request, typename Response,
          typename... Stream>
auto CallHandler(const Handler& handler, ServerContext* context,
                 TypedMessages<Request, Response>* messages,
                 Stream*... stream) {
  constexpr RpcType kType = TypeOf<Request, Response>();
  if constexpr (kType == RpcType::kUnary) {
    return handler(context, messages->typed_request(),
                   messages->typed_response());
  } else if constexpr (kType == RpcType::kServerStreaming) {
    return handler(context, messages->typed_request(), stream...);
  } else if constexpr (kType == RpcType::kClientStreaming) {
    return handler(context, stream..., messages->typed_response());
  } else {
    return handler(context, stream...);
  }
}

// A method whose handler does not block. Each call has a `Starter`, which calls
// the handler and lives as long as the messages.
template <typename Request, typename Response, typename Starter,
          typename Handler>
class AsyncMethod final : public Method {
 public:
  AsyncMethod(const char* full_name, Handler handler)
      : Method(full_name, TypeOf<Request, Response>(), /*asynchronous=*/true),
        handler_(std::move(handler)) {}

  std::unique_ptr<CallMessages> NewMessages() const override {
    return std::make_unique<Messages>();
  }

  ServerReactor* Start(ServerCallState* call,
                       CallMessages* messages) const override {
    auto* typed = static_cast<Messages*>(messages);
    return typed->starter.Start(*this, handler_, &typed->context.emplace(call),
                                typed);
  }

 private:
  struct Messages final : TypedMessages<Request, Response> {
    std::optional<ServerContext> context;
    Starter starter;
  };

  const Handler handler_;
};

// For a handler that returns a reactor.
struct CallbackStarter {
  ServerReactor* Start(const Method& /*method*/, const auto& handler,
                       ServerContext* context, auto* messages) {
    return CallHandler(handler, context, messages);
  }
};

template <typename Request, typename Response, typename Handler>
std::unique_ptr<Method> NewCallbackMethod(const char* full_name,
                                          Handler handler) {
  return std::make_unique<
      AsyncMethod<Request, Response, CallbackStarter, Handler>>(
      full_name, std::move(handler));
}

// Ends its call at once: what a method answers that is not overridden.
template <typename Reactor>
class FinishedReactor final : public Reactor {
 public:
  explicit FinishedReactor(absl::Status status) {
    this->Finish(std::move(status));
  }
  void OnDone() override { delete this; }
};

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

// For a handler that is a coroutine. `Stream` is NoMessage for a unary method.
template <typename Stream>
class CoroutineStarter {
 public:
  ServerReactor* Start(const Method& method, const auto& handler,
                       ServerContext* context, auto* messages) {
    ServerCoroutineReactor& reactor = reactor_.emplace(&method.full_name());
    if constexpr (std::is_same_v<Stream, NoMessage>) {
      reactor.set_task(CallHandler(handler, context, messages));
    } else {
      reactor.set_task(
          CallHandler(handler, context, messages, &stream_.emplace(&reactor)));
    }
    return &reactor;
  }

 private:
  std::optional<ServerCoroutineReactor> reactor_;
  std::optional<Stream> stream_;
};

template <typename Request, typename Response, typename Stream,
          typename Handler>
std::unique_ptr<Method> NewCoroutineMethod(const char* full_name,
                                           Handler handler) {
  return std::make_unique<
      AsyncMethod<Request, Response, CoroutineStarter<Stream>, Handler>>(
      full_name, std::move(handler));
}

// Returns a task that ends with `status` at once, for a method that is
// not overridden.
inline Task<absl::Status> EndedWith(absl::Status status) { co_return status; }

}  // namespace verbena::internal

#endif  // VERBENA_RPC_SUPPORT_METHODS_H_
