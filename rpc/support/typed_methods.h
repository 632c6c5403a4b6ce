// The methods of a service whose handlers may block, and the messages of
// methods of any kind.

#ifndef VERBENA_RPC_SUPPORT_TYPED_METHODS_H_
#define VERBENA_RPC_SUPPORT_TYPED_METHODS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"
#include "rpc/server_context.h"
#include "rpc/server_stream.h"
#include "rpc/stream.h"
#include "rpc/support/method.h"

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

// The type of a method of which these messages are not streamed.
template <typename Request, typename Response>
constexpr RpcType TypeOfStream() {
  if constexpr (!std::is_same_v<Request, NoMessage>) {
    return RpcType::kServerStreaming;
  } else if constexpr (!std::is_same_v<Response, NoMessage>) {
    return RpcType::kClientStreaming;
  } else {
    return RpcType::kBidiStreaming;
  }
}

// `Handler` is called with (ServerContext*, const Request*, Response*) and
// returns an absl::Status.
template <typename Request, typename Response, typename Handler>
class TypedUnaryMethod : public Method {
 public:
  TypedUnaryMethod(const char* full_name, Handler handler)
      : Method(full_name), handler_(std::move(handler)) {}

  RpcType type() const override { return RpcType::kUnary; }
  std::unique_ptr<CallMessages> NewMessages() const override {
    return std::make_unique<TypedMessages<Request, Response>>();
  }

  absl::Status Run(ServerContext* context, CallMessages* messages,
                   MessageReaderWriter* /*stream*/) const override {
    auto* typed = static_cast<TypedMessages<Request, Response>*>(messages);
    return handler_(context, typed->typed_request(), typed->typed_response());
  }

 private:
  const Handler handler_;
};

// `Handler` is called with (ServerContext*, const Request*,
// ServerWriter<Response>*).
template <typename Request, typename Response, typename Handler>
class TypedServerStreamingMethod final : public Method {
 public:
  TypedServerStreamingMethod(const char* full_name, Handler handler)
      : Method(full_name), handler_(std::move(handler)) {}

  RpcType type() const override { return RpcType::kServerStreaming; }

  absl::Status Run(ServerContext* context, CallMessages* /*messages*/,
                   MessageReaderWriter* stream) const override {
    Request request;
    if (!stream->Read(&request, nullptr)) return NoRequest(full_name());
    ServerWriter<Response> writer(stream);
    return handler_(context, &std::as_const(request), &writer);
  }

 private:
  const Handler handler_;
};

// `Handler` is called with (ServerContext*, ServerReader<Request>*, Response*).
template <typename Request, typename Response, typename Handler>
class TypedClientStreamingMethod final : public Method {
 public:
  TypedClientStreamingMethod(const char* full_name, Handler handler)
      : Method(full_name), handler_(std::move(handler)) {}

  RpcType type() const override { return RpcType::kClientStreaming; }

  absl::Status Run(ServerContext* context, CallMessages* /*messages*/,
                   MessageReaderWriter* stream) const override {
    Response response;
    ServerReader<Request> reader(stream);
    absl::Status status = handler_(context, &reader, &response);
    // If the response can't be written, the call has ended, and has its status.
    if (status.ok()) stream->Write(response, {});
    return status;
  }

 private:
  const Handler handler_;
};

// `Handler` is called with (ServerContext*, ServerReaderWriter<Response,
// Request>*).
template <typename Request, typename Response, typename Handler>
class TypedBidiStreamingMethod : public Method {
 public:
  TypedBidiStreamingMethod(const char* full_name, Handler handler)
      : Method(full_name), handler_(std::move(handler)) {}

  RpcType type() const override { return RpcType::kBidiStreaming; }

  absl::Status Run(ServerContext* context, CallMessages* /*messages*/,
                   MessageReaderWriter* stream) const override {
    ServerReaderWriter<Response, Request> typed(stream);
    return handler_(context, &typed);
  }

 private:
  const Handler handler_;
};

// Make a method whose full name is "package.Service/Method". For `handler` see
// the classes above.
template <typename Request, typename Response, typename Handler>
std::unique_ptr<Method> NewUnaryMethod(const char* full_name, Handler handler) {
  return std::make_unique<TypedUnaryMethod<Request, Response, Handler>>(
      full_name, std::move(handler));
}
template <typename Request, typename Response, typename Handler>
std::unique_ptr<Method> NewServerStreamingMethod(const char* full_name,
                                                 Handler handler) {
  return std::make_unique<
      TypedServerStreamingMethod<Request, Response, Handler>>(
      full_name, std::move(handler));
}
template <typename Request, typename Response, typename Handler>
std::unique_ptr<Method> NewClientStreamingMethod(const char* full_name,
                                                 Handler handler) {
  return std::make_unique<
      TypedClientStreamingMethod<Request, Response, Handler>>(
      full_name, std::move(handler));
}
template <typename Request, typename Response, typename Handler>
std::unique_ptr<Method> NewBidiStreamingMethod(const char* full_name,
                                               Handler handler) {
  return std::make_unique<TypedBidiStreamingMethod<Request, Response, Handler>>(
      full_name, std::move(handler));
}

}  // namespace verbena::internal

#endif  // VERBENA_RPC_SUPPORT_TYPED_METHODS_H_
