// The base of generated services.

#ifndef VERBENA_RPC_SERVICE_H_
#define VERBENA_RPC_SERVICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message_lite.h"
#include "rpc/server_context.h"
#include "rpc/server_stream.h"
#include "rpc/stream.h"

namespace verbena {

namespace internal {

class ServerReactor;

// The messages of one call that are not streamed. Reused for later calls of the
// same method.
class CallMessages {
 public:
  virtual ~CallMessages() = default;
  // Null if the client streams its requests, or the handler its responses.
  virtual google::protobuf::MessageLite* request() = 0;
  virtual google::protobuf::MessageLite* response() = 0;
  // Returns the memory that both messages take, cleared or not; SIZE_MAX if
  // one of them can't tell (LITE_RUNTIME). Takes time in proportion to
  // their contents.
  virtual size_t SpaceUsed() const = 0;
  // Gives the memory of the request back.
  virtual void DropRequest() = 0;
};

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

// Returns the status of a streaming call whose client did not send its
// one request.
absl::Status NoRequest(absl::string_view method);

// A method of a service, its message types hidden. Thread-safe as far as the
// user's handler is.
class Method {
 public:
  explicit Method(const char* full_name) : full_name_(full_name) {}
  virtual ~Method() = default;

  virtual RpcType type() const = 0;
  // Whether its messages come and go by a stream, any number of them either
  // way.
  bool streams() const { return type() != RpcType::kUnary; }
  // Whether its handlers do not block: then Start() is called, else Run().
  virtual bool asynchronous() const { return false; }
  // Whether it stands for all methods that have no Method of their own.
  virtual bool is_generic() const { return false; }
  // Null for a blocking method that streams.
  virtual std::unique_ptr<CallMessages> NewMessages() const { return nullptr; }

  // Calls the handler. REQUIRES: `messages` is from this->NewMessages(), and
  // `stream` is not null if the method streams.
  virtual absl::Status Run(ServerContext* /*context*/,
                           CallMessages* /*messages*/,
                           MessageReaderWriter* /*stream*/) const {
    return absl::InternalError("not a blocking method");
  }
  // Calls the handler, on the thread that polls. The reactor that it
  // returns serves the rest of the call. REQUIRES: `messages` is
  // from this->NewMessages().
  virtual ServerReactor* Start(ServerContext* /*context*/,
                               CallMessages* /*messages*/) const {
    return nullptr;
  }

  const std::string& full_name() const { return full_name_; }

 private:
  const std::string full_name_;  // "package.Service/Method".
};

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

}  // namespace internal

// The threads that run the handlers of a service.
enum class HandlerMode {
  // Handlers may block. The server learns which methods have short handlers, of
  // some twenty microseconds at most, and runs those on the thread that polls
  // the network; if one blocks there after all, another thread takes over
  // within two milliseconds. Other handlers run on a pool of workers, which
  // grows while they block: see ServerBuilder::SetMaxWorkerThreads().
  kWorkerPool,
  // The thread that polls the network, always, which saves some tens of
  // nanoseconds a call. Handlers must return within microseconds and never
  // block: every connection of that thread waits for them.
  kInline,
};

// A set of methods that a server answers. Users derive from the generated
// `MyService::Service`, override a virtual function a method, and give the
// object to ServerBuilder::RegisterService().
//
// Handlers run on several threads at once, so the derived class must be
// thread-safe. The request, the response and the context belong to the handler
// until it returns. Handlers of a generated CallbackService or CoroutineService
// do not block, and run on the thread that polls, whatever the mode
// (server_reactor.h, server_coroutine.h). The handler of a method that streams
// gets a reader or a writer, or both, instead of the messages
// (server_stream.h). It runs on a worker, whatever the mode, because it blocks.
//
// The code and message of the returned Status reach the client
// (ServerBuilder::SetMaxStatusMessageSize); the response does only if the
// Status is OK. If an exception leaves a handler, the call ends with UNKNOWN,
// as with gRPC, and the exception is lost.
class Service {
 public:
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  virtual ~Service() = default;

  const std::string& full_name() const { return full_name_; }

  // Overrides the server's mode (ServerBuilder::SetHandlerMode) for this
  // service. Call it before RegisterService().
  void set_handler_mode(HandlerMode mode) { handler_mode_ = mode; }
  std::optional<HandlerMode> handler_mode() const { return handler_mode_; }

  // For the library.
  const std::vector<std::unique_ptr<internal::Method>>& methods() const {
    return methods_;
  }
  void TellServices(const std::vector<std::string>& names) const {
    if (on_services_ != nullptr) on_services_(names);
  }

 protected:
  // `full_name` is "package.Service".
  explicit Service(const char* full_name) : full_name_(full_name) {}

  // Has `on_services` told the full names of all services of a server, this one
  // among them, before that starts.
  void set_on_services(
      std::function<void(const std::vector<std::string>&)> on_services) {
    on_services_ = std::move(on_services);
  }

  // `full_method_name` is "package.Service/Method". For `handler` see
  // TypedUnaryMethod and its neighbours.
  template <typename Request, typename Response, typename Handler>
  void AddUnaryMethod(const char* full_method_name, Handler handler) {
    AddMethod<internal::TypedUnaryMethod<Request, Response, Handler>>(
        full_method_name, std::move(handler));
  }
  template <typename Request, typename Response, typename Handler>
  void AddServerStreamingMethod(const char* full_method_name, Handler handler) {
    AddMethod<internal::TypedServerStreamingMethod<Request, Response, Handler>>(
        full_method_name, std::move(handler));
  }
  template <typename Request, typename Response, typename Handler>
  void AddClientStreamingMethod(const char* full_method_name, Handler handler) {
    AddMethod<internal::TypedClientStreamingMethod<Request, Response, Handler>>(
        full_method_name, std::move(handler));
  }
  template <typename Request, typename Response, typename Handler>
  void AddBidiStreamingMethod(const char* full_method_name, Handler handler) {
    AddMethod<internal::TypedBidiStreamingMethod<Request, Response, Handler>>(
        full_method_name, std::move(handler));
  }

  // For methods of further kinds.
  void AddMethod(std::unique_ptr<internal::Method> method) {
    methods_.push_back(std::move(method));
  }

 private:
  template <typename TypedMethod, typename Handler>
  void AddMethod(const char* full_method_name, Handler handler) {
    AddMethod(
        std::make_unique<TypedMethod>(full_method_name, std::move(handler)));
  }

  const std::string full_name_;
  std::optional<HandlerMode> handler_mode_;
  std::function<void(const std::vector<std::string>&)> on_services_;
  std::vector<std::unique_ptr<internal::Method>> methods_;
};

}  // namespace verbena

#endif  // VERBENA_RPC_SERVICE_H_
