// The base of generated services.

#ifndef VERBENA_RPC_SERVICE_H_
#define VERBENA_RPC_SERVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"
#include "rpc/server_context.h"

namespace verbena {

namespace internal {

// The two messages of one call. Reused for later calls of the same method.
class CallMessages {
 public:
  virtual ~CallMessages() = default;
  virtual google::protobuf::MessageLite* request() = 0;
  virtual google::protobuf::MessageLite* response() = 0;
  // The memory that both take, cleared or not; SIZE_MAX if one of them can't
  // tell (LITE_RUNTIME). Looks at all that is in them.
  virtual size_t SpaceUsed() const = 0;
  // Gives the memory of the request back.
  virtual void DropRequest() = 0;
};

// One method of a service, its message types hidden. Thread-safe as far as the
// user's handler is.
class UnaryMethod {
 public:
  explicit UnaryMethod(const char* full_name) : full_name_(full_name) {}
  virtual ~UnaryMethod() = default;

  virtual std::unique_ptr<CallMessages> NewMessages() const = 0;
  // Calls the handler. REQUIRES: `messages` is from this->NewMessages().
  virtual absl::Status Run(ServerContext* context,
                           CallMessages* messages) const = 0;

  const std::string& full_name() const { return full_name_; }

 private:
  const std::string full_name_;  // "package.Service/Method".
};

// `Handler` is called with (ServerContext*, const Request*, Response*) and
// returns an absl::Status.
template <typename Request, typename Response, typename Handler>
class TypedUnaryMethod final : public UnaryMethod {
 public:
  TypedUnaryMethod(const char* full_name, Handler handler)
      : UnaryMethod(full_name), handler_(std::move(handler)) {}

  std::unique_ptr<CallMessages> NewMessages() const override {
    return std::make_unique<Messages>();
  }

  absl::Status Run(ServerContext* context,
                   CallMessages* messages) const override {
    auto* typed = static_cast<Messages*>(messages);
    return handler_(context, &typed->request_, &typed->response_);
  }

 private:
  struct Messages final : CallMessages {
    google::protobuf::MessageLite* request() override { return &request_; }
    google::protobuf::MessageLite* response() override { return &response_; }
    size_t SpaceUsed() const override {
      if constexpr (requires {
                      request_.SpaceUsedLong();
                      response_.SpaceUsedLong();
                    }) {
        return request_.SpaceUsedLong() + response_.SpaceUsedLong();
      } else {
        return SIZE_MAX;
      }
    }
    void DropRequest() override { request_ = Request(); }
    Request request_;
    Response response_;
  };

  const Handler handler_;
};

}  // namespace internal

// Which threads run the handlers of a service.
enum class HandlerMode {
  // Handlers may block. The server learns which methods have short handlers, of
  // some twenty microseconds at most, and runs those on the thread that polls
  // the network; if one blocks there after all, another thread takes over
  // within two milliseconds. The others run on a pool of workers, which grows
  // while they block: see ServerBuilder::SetMaxWorkerThreads().
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
// until it returns. The Status that it returns reaches the client, code and
// message (cut after 2048 bytes); the response only if it is OK. An exception
// that leaves a handler ends the call with UNKNOWN, as with gRPC, and is lost.
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
  const std::vector<std::unique_ptr<internal::UnaryMethod>>& methods() const {
    return methods_;
  }

 protected:
  // `full_name` is "package.Service".
  explicit Service(const char* full_name) : full_name_(full_name) {}

  // `full_method_name` is "package.Service/Method". For `handler` see
  // TypedUnaryMethod.
  template <typename Request, typename Response, typename Handler>
  void AddUnaryMethod(const char* full_method_name, Handler handler) {
    methods_.push_back(std::make_unique<
                       internal::TypedUnaryMethod<Request, Response, Handler>>(
        full_method_name, std::move(handler)));
  }

 private:
  const std::string full_name_;
  std::optional<HandlerMode> handler_mode_;
  std::vector<std::unique_ptr<internal::UnaryMethod>> methods_;
};

}  // namespace verbena

#endif  // VERBENA_RPC_SERVICE_H_
