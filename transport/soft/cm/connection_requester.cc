#include "transport/soft/cm/connection_requester.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "transport/soft/address/cm_address.h"
#include "transport/soft/base/descriptor_error.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/base/peer_users.h"
#include "transport/soft/link/cm_message.h"
#include "transport/soft/link/link.h"

namespace verbena::soft {
namespace {

// The pause before the next attempt to reach a listener that is away, and for
// how long one may be away.
constexpr std::chrono::milliseconds kConnectPause(kListenerLookMs);
constexpr std::chrono::milliseconds kListenerPause(kListenerAwayMs);

// The first pause is as long where the kernel's queue of the listener is full.
// Each further one doubles, up to this: those who try must not take the
// processor from the one that empties the queue.
constexpr std::chrono::milliseconds kFullPauseMax = 32 * kConnectPause;

}  // namespace

// Makes the request and the memory of the link, and begins to try. From then on
// a failure is told by an event.
int ConnectionRequester::Connect(CmEndpoint& endpoint,
                                 const rdma_conn_param* parameters,
                                 ClosingSockets& closing) {
  if (endpoint.state != CmState::kRouteResolved) return EINVAL;
  CmMessage request = {.type = CmMessageType::kConnectRequest};
  if (!SetParameters(parameters, kRequestDataBytes, request) ||
      !SetQueuePair(endpoint, parameters, request)) {
    return EINVAL;
  }
  request.SetDestination(endpoint.Peer());
  // Create() leaves in errno whether descriptors were lacking.
  errno = 0;
  absl::StatusOr<LinkMemory> link = LinkMemory::Create();
  if (!link.ok()) return DescriptorErrorOr(ENOMEM);
  endpoint.connection.link = *std::move(link);
  endpoint.connection.request = request;
  endpoint.connection.terms = {
      .responder_resources = request.responder_resources,
      .initiator_depth = request.initiator_depth,
      .retry_count = request.retry_count};
  endpoint.deadline = callbacks_.Now() + kHandshakeTimeout;
  endpoint.Transition(CmState::kConnecting);
  Try(endpoint, closing);
  return 0;
}

// If the queue of the listener is full, tries until the deadline. If there is
// no listener and waits_for_listeners_ is set, tries for kListenerPause: a
// program may listen again after each connection.
void ConnectionRequester::Try(CmEndpoint& endpoint, ClosingSockets& closing) {
  const bool local = IsReachedWithinHost(endpoint.Peer());
  int error = local ? ConnectSocket(endpoint.Peer(), users_, endpoint.socket)
                    : ConnectToHost(endpoint);
  const bool may_return =
      waits_for_listeners_ &&
      callbacks_.Now() < endpoint.deadline - kHandshakeTimeout + kListenerPause;
  // EACCES: only processes of other users listen there.
  const bool nobody = error == ECONNREFUSED || error == EACCES;
  ConnectionRecord& connection = endpoint.connection;
  if (error == EAGAIN) {
    connection.pause =
        std::clamp(2 * connection.pause, kConnectPause, kFullPauseMax);
    return TryAgainIn(connection.pause, endpoint);
  }
  if (error == ECONNREFUSED && may_return) {
    return TryAgainIn(kConnectPause, endpoint);
  }
  if (error == 0) {
    if (local) {
      connection.peer_user = PeerUsers::UserOf(endpoint.socket.get());
    }
    // With it goes the memory of the link, which both queue pairs will use.
    error = SendCmMessage(endpoint.socket.get(), connection.request,
                          connection.link->fd());
    // A peer that has closed the socket already may have said why: that is read
    // from it.
    if (error == ECONNRESET || error == EPIPE) error = 0;
    if (error == 0) error = handshake_.Watch(endpoint);
  }
  if (nobody) {
    handshake_.Fail(endpoint, RDMA_CM_EVENT_REJECTED,
                    error == EACCES ? kOtherUser : kInvalidServiceId, closing);
  } else if (error != 0) {
    handshake_.Fail(endpoint, RDMA_CM_EVENT_CONNECT_ERROR, -error, closing);
  } else {
    handshake_.StartTimer(endpoint);
  }
}

void ConnectionRequester::TryAgainIn(std::chrono::milliseconds pause,
                                     CmEndpoint& endpoint) {
  callbacks_.StartTimer(pause, endpoint,
                        [this](CmEndpoint& waiting, ClosingSockets& closing)
                            ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) {
                              if (waiting.state != CmState::kConnecting) return;
                              if (callbacks_.Now() < waiting.deadline) {
                                Try(waiting, closing);
                              } else {
                                handshake_.Fail(waiting,
                                                RDMA_CM_EVENT_UNREACHABLE,
                                                -ETIMEDOUT, closing);
                              }
                            });
}

// A relay of this process plays the peer: it gets the other end of a pair of
// sockets, and is spoken to as any peer is.
int ConnectionRequester::ConnectToHost(CmEndpoint& endpoint) {
  if (const int error = network_.Start(); error != 0) return error;
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                   sockets) != 0) {
    return errno;
  }
  // The bound socket is kept, so that nobody else gets the local address.
  endpoint.connection.address_holder =
      std::exchange(endpoint.socket, base::UniqueFd(sockets[0]));
  endpoint.connection.driver =
      network_.Connect(endpoint.Local(), endpoint.Peer(), std::nullopt,
                       {.memory = std::nullopt,
                        .side = LinkSide::kSecond,
                        .socket = base::UniqueFd(sockets[1]),
                        .traffic_class = endpoint.traffic_class});
  return 0;
}

}  // namespace verbena::soft
