// Client interceptors: objects that see every call of a channel, for
// logs, metrics or tokens. Programs that use them include this file
// besides rpc/rpc.h.
//
//   class Token final : public verbena::ClientInterceptor {
//    public:
//     explicit Token(verbena::ClientRpcInfo* info) : info_(*info) {}
//     absl::Status OnStart() override {
//       info_.client_context()->AddMetadata("authorization", "Bearer ...");
//       return absl::OkStatus();
//     }
//     ...
//   };
//   class Tokens final : public verbena::ClientInterceptorFactory {
//     std::unique_ptr<verbena::ClientInterceptor> CreateClientInterceptor(
//         verbena::ClientRpcInfo* info) override {
//       return std::make_unique<Token>(info);
//     }
//   };
//   verbena::ChannelOptions options;
//   options.interceptors.push_back(std::make_shared<Tokens>());
//
// Calls of all kinds, in whichever form they are made, go through them.

#ifndef VERBENA_RPC_CLIENT_INTERCEPTOR_H_
#define VERBENA_RPC_CLIENT_INTERCEPTOR_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message_lite.h"
#include "rpc/client_context.h"
#include "rpc/metadata.h"
#include "rpc/stream.h"

namespace verbena {

namespace internal {
class ClientInterception;
}  // namespace internal

// Describes the call. Lives as long as the interceptors of the call.
class ClientRpcInfo {
 public:
  ClientRpcInfo(const ClientRpcInfo&) = delete;
  ClientRpcInfo& operator=(const ClientRpcInfo&) = delete;

  // "package.Service/Method".
  absl::string_view method() const { return method_; }
  RpcType type() const { return type_; }
  ClientContext* client_context() const { return context_; }

 private:
  friend class internal::ClientInterception;

  ClientRpcInfo(absl::string_view method, RpcType type, ClientContext* context)
      : method_(method), type_(type), context_(context) {}

  const absl::string_view method_;
  const RpcType type_;
  ClientContext* const context_;
};

// Accompanies one call: the library calls these functions as the call goes on.
// They may block, which holds up the caller, and may make calls of their own.
// They must not throw. The library holds no lock that another call needs while
// it calls them.
//
// Interceptors that were added first are the nearest to the application:
// OnStart() and OnSendMessage() are called in the order in which the factories
// stand in ChannelOptions::interceptors, the others in reverse.
//
// Threads: OnStart() is called by the thread that starts the call, and
// OnSendMessage() by the one that writes. OnReceiveInitialMetadata() and
// OnReceiveMessage() are called by the thread that reads, OnEnd() by the one
// that waits for the end (or that drops the stream). If the call has a
// callback or a reactor, the thread that calls these calls the interceptors.
// If it has a coroutine, the coroutine's thread reads and writes whatever
// needs no waiting. In a stream, one thread may be in OnSendMessage() while
// another is in one of the two for receiving. OnEnd() is the last, and no
// other runs at the same time.
class ClientInterceptor {
 public:
  ClientInterceptor() = default;
  ClientInterceptor(const ClientInterceptor&) = delete;
  ClientInterceptor& operator=(const ClientInterceptor&) = delete;
  virtual ~ClientInterceptor() = default;

  // Called before anything is sent. May add metadata to the context, which
  // forgets them when the call has ended; whatever else is set there stays
  // for later calls of the same context. If the status is not OK, the call
  // ends with it: nothing is sent, and the interceptors behind this one
  // are not called. A call whose context is in use by another call ends
  // without interceptors.
  virtual absl::Status OnStart() { return absl::OkStatus(); }

  // A message is about to be sent. It may still turn out to be too long, or the
  // call to have ended.
  virtual void OnSendMessage(const google::protobuf::MessageLite& /*message*/) {
  }

  // The server has sent initial metadata, and they are in the context. Called
  // before the first message or, if there is none, before OnEnd(). Not called
  // if there are none.
  virtual void OnReceiveInitialMetadata(const Metadata& /*metadata*/) {}

  // A message has come, which may be changed before the application sees it.
  // For a unary call, only if the call ends with OK.
  virtual void OnReceiveMessage(google::protobuf::MessageLite* /*message*/) {}

  // The call has ended with `*status`, which may be changed before the
  // application sees it; where an error is changed to OK the response of a
  // unary call is whatever it was. Trailing metadata are in the context. Called
  // once, if OnStart() was called, however the call has ended. (If a server
  // ends a call with OK but sends no response where one is due, `*status` is OK
  // here, and the application sees INTERNAL.)
  virtual void OnEnd(absl::Status* /*status*/) {}
};

// Makes the interceptors of a channel's calls. Thread-safe. Must not throw.
class ClientInterceptorFactory {
 public:
  virtual ~ClientInterceptorFactory() = default;

  // Called by the thread that starts a call, for each call. Returns null if the
  // call is of no interest. The call owns the interceptor, and destroys it
  // after OnEnd().
  virtual std::unique_ptr<ClientInterceptor> CreateClientInterceptor(
      ClientRpcInfo* info) = 0;
};

}  // namespace verbena

#endif  // VERBENA_RPC_CLIENT_INTERCEPTOR_H_
