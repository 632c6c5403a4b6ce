// A client's connection to one server.

#ifndef VERBENA_TRANSPORT_CONNECTION_CLIENT_CONNECTION_H_
#define VERBENA_TRANSPORT_CONNECTION_CLIENT_CONNECTION_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/socket_address.h"
#include "transport/connection/client_call.h"
#include "transport/connection/client_calls.h"
#include "transport/connection/cm_watcher.h"
#include "transport/connection/connection_state.h"
#include "transport/connection/poller.h"
#include "transport/connection/poller_device.h"
#include "transport/memory/buffer_pool.h"
#include "transport/verbs/provider.h"

namespace verbena::transport {

// Owns everything that a connected client needs: the poller, the connection
// manager's events, the device's queues and the arenas, and the
// connection with its calls.
//
// Deadlines of calls are kept by the connection as long as somebody polls.
// Confined to the poller's thread, unless a method says otherwise.
class ClientConnection {
 public:
  // Connects to `address` through `provider`. Blocks, for at most
  // options.connect_timeout. Fails with UNAVAILABLE when nobody listens or
  // nothing answers, with what the server gave as its reason when it refuses,
  // and with FAILED_PRECONDITION when options.device is not the device that
  // routes to the address. Any thread.
  static absl::StatusOr<std::unique_ptr<ClientConnection>> Connect(
      const Provider& provider, const base::SocketAddress& address,
      const EndpointOptions& options);
  // The same on a poller that this thread has entered, and that drives other
  // connections too: they go on while this one connects. The poller must
  // outlive the connection, which is used and destroyed on its thread.
  static absl::StatusOr<std::unique_ptr<ClientConnection>> ConnectOn(
      Poller& poller, const Provider& provider,
      const base::SocketAddress& address, const EndpointOptions& options);
  ClientConnection(const ClientConnection&) = delete;
  ClientConnection& operator=(const ClientConnection&) = delete;
  // Ends open calls with UNAVAILABLE and disconnects. REQUIRES: nobody has
  // entered its own poller, nothing is posted to that.
  ~ClientConnection();

  // Any thread.
  Poller& poller() { return poller_; }

  // Starts a call. Never blocks: a call that finds no credit, slot or memory
  // waits. May end the call from inside.
  void Start(ClientCall* call) { calls_->Start(call); }

  // Ends a call that was started and has not ended with `reason`, which is not
  // OK; the server hears of it. Otherwise nothing.
  void Cancel(ClientCall* call, const absl::Status& reason) {
    calls_->Cancel(call, reason);
  }

  // The connection is lost and all its calls have ended: make another one.
  bool failed() const { return !calls_->connection().failure().ok(); }
  const absl::Status& failure() const { return calls_->connection().failure(); }

  // The server takes no new calls here; open ones go on.
  bool draining() const { return calls_->draining(); }

  // Neither: calls may be started.
  bool usable() const { return calls_->connection().usable() && !draining(); }

  // Calls that were started and have not ended.
  uint32_t open_calls() const { return calls_->open_calls(); }

  // Registered memory, for attachments that go without a copy.
  BufferSource buffer_source() const { return device_->pool().source(); }

  // Any thread. All of that memory, used or not.
  uint64_t arena_bytes() const { return device_->pool().registered_bytes(); }
  const std::string& device_name() const { return device_->name(); }
  const std::string& peer() const { return calls_->connection().peer(); }

 private:
  // `own_poller` is null, or `poller`.
  ClientConnection(std::unique_ptr<Poller> own_poller, Poller& poller,
                   EventChannel channel);
  absl::Status Establish(const Provider& provider,
                         const base::SocketAddress& address,
                         const EndpointOptions& options);
  absl::Status OpenDevice(const Provider& provider, const CmId& id,
                          const EndpointOptions& options);
  absl::Status WaitForWelcome(absl::Time deadline);

  // In the order of dependence.
  const std::unique_ptr<Poller> own_poller_;  // Null if it came from outside.
  Poller& poller_;
  CmWatcher watcher_;
  std::unique_ptr<PollerDevice> device_;
  std::unique_ptr<ClientCalls> calls_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CONNECTION_CLIENT_CONNECTION_H_
