// The passive side of a connection, up to the CONNECT_REQUEST.

#ifndef VERBENA_TRANSPORT_SOFT_CM_CONNECTION_LISTENER_H_
#define VERBENA_TRANSPORT_SOFT_CM_CONNECTION_LISTENER_H_

#include <chrono>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "transport/base/rare_warning.h"
#include "transport/soft/base/foreign_fd.h"
#include "transport/soft/base/peer_users.h"
#include "transport/soft/cm/cm_endpoint.h"
#include "transport/soft/cm/cm_events.h"
#include "transport/soft/cm/cm_locks.h"
#include "transport/soft/cm/connection_handshake.h"
#include "transport/soft/cm/endpoint_addresses.h"
#include "transport/soft/cm/endpoint_callbacks.h"
#include "transport/soft/link/cm_message.h"
#include "transport/soft/remote/network.h"

namespace verbena::soft {

// Accepts connections for listeners, reads a request from each, and makes it an
// endpoint, which it leaves to the handshake.
//
// Anybody can connect. A process of another user is told that it is one, and
// nothing is read from it. A connection without a correct request is closed
// after a time, and so is the oldest when there are too many.
//
// Thread-safe: its methods are called with kEndpoints held. The parts that it
// is made with outlive it.
class ConnectionListener {
 public:
  ConnectionListener(const PeerUsers& users, Network& network,
                     EndpointCallbacks& callbacks, EndpointAddresses& addresses,
                     CmEvents& events, ConnectionHandshake& handshake)
      : users_(users),
        network_(network),
        callbacks_(callbacks),
        addresses_(addresses),
        events_(events),
        handshake_(handshake) {}
  ConnectionListener(const ConnectionListener&) = delete;
  ConnectionListener& operator=(const ConnectionListener&) = delete;

  // Takes connections for `listener`, which is bound. Returns 0 or an errno.
  int Start(CmEndpoint& listener) ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  // The user destroys `listener`.
  void End(CmEndpoint& listener, ClosingSockets& closing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);

 private:
  // Keeps a descriptor for when there is no other.
  static void KeepSpare(CmEndpoint& listener)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  int Watch(CmEndpoint& listener) ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  void OnIncoming(CmEndpoint& listener, ClosingSockets& closing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  void Pause(std::chrono::milliseconds pause, CmEndpoint& listener)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  void AddHalfOpen(CmEndpoint& listener, HalfOpenConnection half_open,
                   ClosingSockets& closing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  int WatchHalfOpen(CmEndpoint& listener, uint64_t key, int socket)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  void PauseHalfOpen(CmEndpoint& listener, uint64_t key, int socket)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  void RemoveHalfOpen(CmEndpoint& listener, uint64_t key,
                      ClosingSockets& closing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  void OnHalfOpenReadable(CmEndpoint& listener, uint64_t key,
                          ClosingSockets& closing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  // For connections of other hosts.
  int WatchTcp(CmEndpoint& listener) ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  void OnRemote(CmEndpoint& listener, ClosingSockets& closing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  void PauseTcp(CmEndpoint& listener) ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  void AddRemote(CmEndpoint& listener, base::UniqueFd tcp,
                 ClosingSockets& closing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  // Tells a client, and the user by a warning, that this process lacks the
  // descriptors or the memory for the connection.
  void Refuse(int socket) ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  // Takes the socket of `half_open` unless `received` is no request, or is
  // refused.
  void TakeRequest(CmEndpoint& listener, CmReceived& received,
                   HalfOpenConnection& half_open)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);

  const PeerUsers& users_;
  Network& network_;
  EndpointCallbacks& callbacks_;
  EndpointAddresses& addresses_;
  CmEvents& events_;
  ConnectionHandshake& handshake_;
  base::RareWarning warning_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CM_CONNECTION_LISTENER_H_
