// Server interceptors: objects that see every call of a server before and after
// its handler, for logs, metrics or permissions. See client_interceptor.h for
// the client's side.
//
//   class Gate final : public verbena::ServerInterceptor {
//    public:
//     explicit Gate(verbena::ServerRpcInfo* info) : info_(*info) {}
//     absl::Status OnStart() override {
//       return IsKnown(info_.server_context()->client_metadata())
//                  ? absl::OkStatus()
//                  : absl::UnauthenticatedError("no token");
//     }
//     ...
//   };
//   builder.AddInterceptor(std::make_shared<GateFactory>());

#ifndef VERBENA_RPC_SERVER_INTERCEPTOR_H_
#define VERBENA_RPC_SERVER_INTERCEPTOR_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message_lite.h"
#include "rpc/server_context.h"
#include "rpc/stream.h"

namespace verbena {

namespace internal {
class ServerInterception;
}  // namespace internal

// Describes the call. Lives as long as the interceptors of the call.
class ServerRpcInfo {
 public:
  ServerRpcInfo(const ServerRpcInfo&) = delete;
  ServerRpcInfo& operator=(const ServerRpcInfo&) = delete;

  // "package.Service/Method".
  absl::string_view method() const { return method_; }
  RpcType type() const { return type_; }
  // The client's address; the same as the context's.
  const std::string& peer() const { return context_->peer(); }
  ServerContext* server_context() const { return context_; }

 private:
  friend class internal::ServerInterception;

  ServerRpcInfo(absl::string_view method, RpcType type, ServerContext* context)
      : method_(method), type_(type), context_(context) {}

  const absl::string_view method_;
  const RpcType type_;
  ServerContext* const context_;
};

// Accompanies one call: the library calls these functions as the call goes on.
// They run where the handler does, and must not block if the handler must not:
// inline handlers, and those of a CallbackService or a CoroutineService. If one
// throws, the call ends with UNKNOWN, as with a handler.
//
// Interceptors that were added first are the nearest to the network: OnStart()
// and OnReceiveMessage() are called in the order in which they were added,
// OnSendMessage() and OnEnd() in reverse.
//
// Threads: OnStart() and OnEnd() are called by the handler's thread; for a
// reactor or a coroutine that is the thread that polls. The others are called
// by the thread that reads or writes. In a stream, one thread may be in
// OnSendMessage() while another is in OnReceiveMessage(). OnEnd() is the last,
// and no other runs at the same time.
//
// A call has interceptors from when its handler may run. Calls that end before
// that have none:
// * the method does not exist, or is of another kind;
// * the call is beyond a limit of the server, or no worker was free;
// * its metadata or its unary request can't be read;
// * an AuthMetadataProcessor or an authorization policy is against it;
// * it was cancelled while it waited for a worker.
class ServerInterceptor {
 public:
  ServerInterceptor() = default;
  ServerInterceptor(const ServerInterceptor&) = delete;
  ServerInterceptor& operator=(const ServerInterceptor&) = delete;
  virtual ~ServerInterceptor() = default;

  // Called before the handler runs, and after the AuthMetadataProcessor if
  // there is one. The context has the client's metadata, address and identity
  // (auth_context()); metadata for the client may be added. If the status is
  // not OK, the call ends with it: its handler does not run, and the
  // interceptors behind this one are not called.
  virtual absl::Status OnStart() { return absl::OkStatus(); }

  // A message of the client has come, which may be changed before the handler
  // sees it.
  virtual void OnReceiveMessage(google::protobuf::MessageLite* /*message*/) {}

  // A message of the handler is about to be sent. For a unary call, only if the
  // handler has returned OK. The library may still find that it can't be sent.
  virtual void OnSendMessage(const google::protobuf::MessageLite& /*message*/) {
  }

  // The handler has ended the call with `*status`, which may be changed before
  // it is sent; trailing metadata may be added. If an error is changed to OK,
  // the response of a unary call is sent as the handler has left it, but a
  // stream sends none.
  //
  // Called once, if OnStart() was called, however the call ends: if nobody
  // waits for it any more, ServerContext::IsCancelled() says so. The client may
  // still see another error, if the reply or its metadata are too long for it.
  virtual void OnEnd(absl::Status* /*status*/) {}
};

// Makes the interceptors of a server's calls. Thread-safe.
class ServerInterceptorFactory {
 public:
  virtual ~ServerInterceptorFactory() = default;

  // Called for each call, before its OnStart() and by the same thread. Returns
  // null if the call is of no interest. The call owns the interceptor, and
  // destroys it after OnEnd().
  virtual std::unique_ptr<ServerInterceptor> CreateServerInterceptor(
      ServerRpcInfo* info) = 0;
};

}  // namespace verbena

#endif  // VERBENA_RPC_SERVER_INTERCEPTOR_H_
