// The methods of a generated CallbackService.

#ifndef VERBENA_RPC_SUPPORT_CALLBACK_METHOD_H_
#define VERBENA_RPC_SUPPORT_CALLBACK_METHOD_H_

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "rpc/server_context.h"
#include "rpc/server_reactor.h"
#include "rpc/stream.h"
#include "rpc/support/method.h"
#include "rpc/support/typed_method.h"

namespace verbena::internal {

// A method whose handler returns a reactor. `Handler` is called with the
// context, and with the request and the response as far as they are not
// NoMessage, because they are streamed.
template <typename Request, typename Response, typename Handler>
class CallbackMethod : public Method {
 public:
  CallbackMethod(const char* full_name, Handler handler)
      : Method(full_name), handler_(std::move(handler)) {}

  RpcType type() const override {
    return kHasRequest && kHasResponse ? RpcType::kUnary
                                       : TypeOfStream<Request, Response>();
  }
  bool asynchronous() const override { return true; }
  std::unique_ptr<CallMessages> NewMessages() const override {
    return std::make_unique<Messages>();
  }

  ServerReactor* Start(ServerCallState* call,
                       CallMessages* messages) const override {
    auto* typed = static_cast<Messages*>(messages);
    ServerContext* const context = &typed->context.emplace(call);
    if constexpr (kHasRequest && kHasResponse) {
      return handler_(context, typed->typed_request(), typed->typed_response());
    } else if constexpr (kHasRequest) {
      return handler_(context, typed->typed_request());
    } else if constexpr (kHasResponse) {
      return handler_(context, typed->typed_response());
    } else {
      return handler_(context);
    }
  }

 private:
  struct Messages final : TypedMessages<Request, Response> {
    std::optional<ServerContext> context;
  };
  static constexpr bool kHasRequest = !std::is_same_v<Request, NoMessage>;
  static constexpr bool kHasResponse = !std::is_same_v<Response, NoMessage>;

  const Handler handler_;
};

template <typename Request, typename Response, typename Handler>
std::unique_ptr<Method> NewCallbackMethod(const char* full_name,
                                          Handler handler) {
  return std::make_unique<CallbackMethod<Request, Response, Handler>>(
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

}  // namespace verbena::internal

#endif  // VERBENA_RPC_SUPPORT_CALLBACK_METHOD_H_
