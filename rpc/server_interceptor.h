// What looks at every call of a server before and after its handler: logs,
// metrics, permissions. See client_interceptor.h for the other side.
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

// Which call it is. Lives as long as the interceptors of the call.
class ServerRpcInfo {
 public:
  // For the library.
  ServerRpcInfo(absl::string_view method, RpcType type, ServerContext* context)
      : method_(method), type_(type), context_(context) {}
  ServerRpcInfo(const ServerRpcInfo&) = delete;
  ServerRpcInfo& operator=(const ServerRpcInfo&) = delete;

  // "package.Service/Method".
  absl::string_view method() const { return method_; }
  RpcType type() const { return type_; }
  // The client's address; the same as the context's.
  const std::string& peer() const { return context_->peer(); }
  ServerContext* server_context() const { return context_; }

 private:
  const absl::string_view method_;
  const RpcType type_;
  ServerContext* const context_;
};

// Accompanies one call, of which it is told by these functions. They run where
// the handler does, and must not block where that must not: inline handlers,
// those of a CallbackService or a CoroutineService. One that throws ends the
// call with UNKNOWN, as a handler does.
//
// Of several interceptors those that were added first are the nearest to the
// network: OnStart() and OnReceiveMessage() are called in the order in which
// they were added, OnSendMessage() and OnEnd() in reverse.
//
// Threads: OnStart() and OnEnd() are called by the handler's, for a reactor or
// a coroutine the one that polls; the others by whoever reads or writes. Of a
// stream, one thread may be in OnSendMessage() while another is in
// OnReceiveMessage(). OnEnd() is the last, and has no other beside it.
//
// A call has interceptors from when its handler may run. One that ends before
// has none: its method is not there or of another kind, it is beyond a limit of
// the server, its metadata or its unary request can't be read, no worker was
// free, or it was cancelled while it waited for one.
class ServerInterceptor {
 public:
  ServerInterceptor() = default;
  ServerInterceptor(const ServerInterceptor&) = delete;
  ServerInterceptor& operator=(const ServerInterceptor&) = delete;
  virtual ~ServerInterceptor() = default;

  // Before the handler runs, and behind an AuthMetadataProcessor that is for
  // the call. The context has the client's metadata, its address and who it is
  // (auth_context()); metadata for the client may be added. A status that is
  // not OK ends the call: its handler does not run, and the interceptors behind
  // this one hear nothing of it.
  virtual absl::Status OnStart() { return absl::OkStatus(); }

  // A message of the client has come, which may be changed before the handler
  // sees it.
  virtual void OnReceiveMessage(google::protobuf::MessageLite* /*message*/) {}

  // A message of the handler is about to be sent. Of a unary call only if the
  // handler has returned OK. It may still turn out that it can't be sent.
  virtual void OnSendMessage(const google::protobuf::MessageLite& /*message*/) {
  }

  // The handler has ended the call with `*status`, which may be changed before
  // it is sent; trailing metadata may be added. An error that is changed to OK
  // sends the response of a unary call as the handler has left it, but none of
  // a stream. Once, if OnStart() was called, however the call ends: if nobody
  // waits for it any more ServerContext::IsCancelled() says so. What the client
  // sees may still be another error, where the reply or its metadata turn out
  // to be too long for it.
  virtual void OnEnd(absl::Status* /*status*/) {}
};

// Makes the interceptors of a server's calls. Thread-safe.
class ServerInterceptorFactory {
 public:
  virtual ~ServerInterceptorFactory() = default;

  // Called for each call, before its OnStart() and by the same thread. Null if
  // it is of no interest. The call owns what is returned, and destroys it after
  // OnEnd().
  virtual std::unique_ptr<ServerInterceptor> CreateServerInterceptor(
      ServerRpcInfo* info) = 0;
};

}  // namespace verbena

#endif  // VERBENA_RPC_SERVER_INTERCEPTOR_H_
