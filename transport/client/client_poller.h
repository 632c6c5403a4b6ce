// A poller and the client's connections that it drives.

#ifndef VERBENA_TRANSPORT_CLIENT_CLIENT_POLLER_H_
#define VERBENA_TRANSPORT_CLIENT_CLIENT_POLLER_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/socket_address.h"
#include "transport/client/client_connection.h"
#include "transport/client/client_devices.h"
#include "transport/polling/poller.h"
#include "transport/verbs/provider.h"

namespace verbena::transport {

// Owns a poller and the devices that its connections share. Connections begin
// and end here without anybody waiting for one of them.
//
// A ClientPoller has no thread: its users enter its poller and poll. The
// Providers must outlive it. Confined to the poller's thread.
class ClientPoller final : private Pollable {
 public:
  // Any thread.
  static absl::StatusOr<std::unique_ptr<ClientPoller>> Create();
  ClientPoller(const ClientPoller&) = delete;
  ClientPoller& operator=(const ClientPoller&) = delete;
  // Waits for the connections that are closing, for at most some seconds.
  // REQUIRES: nobody has entered the poller, nothing of others is posted to it,
  // and every connection was given to Close().
  ~ClientPoller() override;

  // Any thread.
  Poller& poller() { return *poller_; }

  // Begins to connect to `address` through `provider`, and returns at once.
  // `observer`, which may be null, hears later how that ended, also if it has
  // failed already; it must outlive the connection or its Close(). After
  // options.connect_timeout the connection has failed. For errors see
  // LoneConnection::Connect().
  std::unique_ptr<ClientConnection> Connect(
      const Provider& provider, const base::SocketAddress& address,
      const EndpointOptions& options, ClientConnection::Observer* observer);

  // Ends the connection's calls now, with UNAVAILABLE, and disconnects; it is
  // destroyed when its device has let go of its memory. Its observer hears no
  // more.
  void Close(std::unique_ptr<ClientConnection> connection);

 private:
  explicit ClientPoller(std::unique_ptr<Poller> poller);

  // Stops watching over connections that do not connect any more.
  void ForgetSettled();
  // Destroys those that have closed.
  void Reap();

  // Pollable: watches over those that connect, and reaps.
  int Poll() override { return 0; }
  bool polls() const override { return false; }
  void Tick(absl::Time now) override;
  absl::Status Arm() override { return absl::OkStatus(); }
  int fd() const override { return -1; }
  absl::Time NextTick() const override;

  // In the order of dependence.
  const std::unique_ptr<Poller> poller_;
  std::unique_ptr<ClientDevices> devices_;
  std::vector<ClientConnection*> connecting_;
  std::vector<std::unique_ptr<ClientConnection>> closing_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CLIENT_CLIENT_POLLER_H_
