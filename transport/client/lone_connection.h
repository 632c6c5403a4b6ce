// A client's connection with a poller of its own.

#ifndef VERBENA_TRANSPORT_CLIENT_LONE_CONNECTION_H_
#define VERBENA_TRANSPORT_CLIENT_LONE_CONNECTION_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/socket_address.h"
#include "transport/client/client_connection.h"
#include "transport/client/client_poller.h"
#include "transport/verbs/provider.h"

namespace verbena::transport {

// Owns a ClientConnection and the poller that it alone uses; empty if
// default-constructed or moved from.
class LoneConnection {
 public:
  // Connects to `address` through `provider`, on a poller of its own. Blocks,
  // for at most options.connect_timeout. Fails with UNAVAILABLE when nobody
  // listens or nothing answers, with what the server gave as its reason when it
  // refuses, and with FAILED_PRECONDITION when options.device is not the device
  // that routes to the address. Any thread.
  static absl::StatusOr<LoneConnection> Connect(
      const Provider& provider, const base::SocketAddress& address,
      const EndpointOptions& options);
  LoneConnection() = default;
  LoneConnection(LoneConnection&&) = default;
  LoneConnection& operator=(LoneConnection&& other) noexcept {
    Reset();
    poller_ = std::move(other.poller_);
    connection_ = std::move(other.connection_);
    return *this;
  }
  // As Reset().
  ~LoneConnection() { Reset(); }

  // Ends open calls with UNAVAILABLE, disconnects, and waits for that, for at
  // most some seconds. REQUIRES: nobody has entered the poller.
  void Reset();

  ClientConnection* get() const { return connection_.get(); }
  ClientConnection& operator*() const { return *connection_; }
  ClientConnection* operator->() const { return connection_.get(); }

 private:
  std::unique_ptr<ClientPoller> poller_;
  std::unique_ptr<ClientConnection> connection_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CLIENT_LONE_CONNECTION_H_
