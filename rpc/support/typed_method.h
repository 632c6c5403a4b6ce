// The methods of a service whose handlers may block, and the messages of
// methods of any kind.

#ifndef VERBENA_RPC_SUPPORT_TYPED_METHOD_H_
#define VERBENA_RPC_SUPPORT_TYPED_METHOD_H_

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
      : Method(full_name), handler_(std::move(handler)) {}

  RpcType type() const override { return kType; }
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

}  // namespace verbena::internal

#endif  // VERBENA_RPC_SUPPORT_TYPED_METHOD_H_
