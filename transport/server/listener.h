// Takes connections for a server on one provider.

#ifndef VERBENA_TRANSPORT_SERVER_LISTENER_H_
#define VERBENA_TRANSPORT_SERVER_LISTENER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/base/credentials.h"
#include "transport/base/socket_address.h"
#include "transport/polling/poller.h"
#include "transport/server/server_poller.h"
#include "transport/verbs/cm_id.h"
#include "transport/verbs/event_channel.h"
#include "transport/verbs/provider.h"

namespace verbena::transport {

// Listens on addresses of one provider, checks what clients say in their
// private data, refuses with a reason who does not fit, and hands over the
// others. If the device of an address is removed, the listener tries to
// listen there again until the device is back. For the wildcard address the
// kernel does that itself.
//
// The Provider must outlive it. Driven by a poller once it has been added to
// one, and confined to that poller's thread from then on.
class Listener final : public Pollable {
 public:
  using Accept = std::function<void(IncomingConnection)>;

  // Connections that come in through another device than `device` are refused,
  // unless it is empty. `dscp` is as in EndpointOptions.
  static absl::StatusOr<std::unique_ptr<Listener>> Create(
      const Provider& provider, std::string device, int dscp, Accept accept);

  // Port 0 chooses one. Returns the address with its port. Clients that come
  // there must show `credentials`, unless they are null.
  absl::StatusOr<base::SocketAddress> Listen(
      const base::SocketAddress& address,
      std::shared_ptr<const ServerCredentials> credentials);

  // Hands over who has come by now, and gives the addresses back. Of what was
  // handed over some may still stand in its event channel, so it must stay.
  void StopListening();

  int Poll() override { return 0; }
  bool polls() const override { return false; }
  void Tick(absl::Time now) override;
  void OnReadable() override;
  absl::Status Arm() override { return absl::OkStatus(); }
  int fd() const override { return channel_.fd(); }
  absl::Time NextTick() const override { return next_try_; }

 private:
  struct Listening {
    base::SocketAddress address;  // With its port.
    std::shared_ptr<const ServerCredentials> credentials;
    std::optional<CmId> id;  // None while the device of the address is gone.
  };

  Listener(const Provider& provider, EventChannel channel, std::string device,
           int dscp, Accept accept)
      : provider_(provider),
        device_(std::move(device)),
        dscp_(dscp),
        accept_(std::move(accept)),
        channel_(std::move(channel)) {}
  absl::StatusOr<CmId> ListenAt(const base::SocketAddress& address);
  void HandleRequest(const CmEvent& event);
  // Stops listening by `id`, whose device was removed.
  void HandleRemoval(const rdma_cm_id* id);

  const Provider& provider_;
  const std::string device_;
  const int dscp_;
  const Accept accept_;
  EventChannel channel_;
  std::vector<Listening> listening_;
  absl::Time next_try_ = absl::InfiniteFuture();  // To listen there again.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SERVER_LISTENER_H_
