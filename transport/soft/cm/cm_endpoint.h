// The object behind an rdma_cm_id.

#ifndef VERBENA_TRANSPORT_SOFT_CM_CM_ENDPOINT_H_
#define VERBENA_TRANSPORT_SOFT_CM_CM_ENDPOINT_H_

#include <rdma/rdma_cma.h>
#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "transport/base/socket_address.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/base/clock.h"
#include "transport/soft/cm/cm_locks.h"
#include "transport/soft/cm/cm_queue_pair.h"
#include "transport/soft/cm/cm_state.h"
#include "transport/soft/link/cm_message.h"
#include "transport/soft/link/link.h"
#include "transport/soft/link/link_driver.h"

namespace verbena::soft {

class ConnectionManager;
class PortSpace;

// The memory that librdmacm's rsockets read behind the public fields of an
// rdma_cm_id when the rest of librdmacm is replaced by ours. They read two
// values there. A word that is not zero says that the identifier is
// synchronous. A pointer leads to the device, which holds the greatest depth of
// a queue (16 bits). Versions of librdmacm have these values at different
// places, so every place holds the same value.
struct RsocketView {
  RsocketView() {
    rest_of_id.fill(1);
    queue_depth.fill(512);
  }

  const void* device = &queue_depth;
  std::array<uint32_t, 64> rest_of_id;
  std::array<uint16_t, 128> queue_depth;
};

// A connection that a listener has accepted from its socket and that has not
// sent its request yet.
struct HalfOpenConnection {
  base::UniqueFd socket;
  // The peer's address if it is on another host; empty if it is on this one,
  // where its socket tells.
  base::SocketAddress remote;
  // Carries the link of a peer on another host.
  std::shared_ptr<LinkDriver> driver;
};

// The most CONNECT_REQUEST events that a listener may have unread, and what
// listen(id, 0) means: as in the kernel's manager.
inline constexpr int kBacklogMax = 1024;

// The state of a listener.
struct ListenerRecord {
  // A descriptor that is kept to be given up when the process has no other, so
  // that a client can be accepted and told why it is refused.
  base::UniqueFd spare;
  // Listens at the TCP port of the same number, for other hosts.
  base::UniqueFd tcp;
  // How many CONNECT_REQUEST events may be unread.
  int backlog = kBacklogMax;
  // For the port space TCP. The keys count upwards, so the first connection is
  // the oldest.
  std::map<uint64_t, HalfOpenConnection> half_open;
  uint64_t next_half_open = 1;
};

// The state of one side of a connection (port space TCP).
struct ConnectionRecord {
  // The request that this side has sent or received.
  CmMessage request;
  // The terms that both sides have agreed on; before that, those that the
  // active side wants. The path and the timeout are filled in when needed.
  CmQueuePairTerms terms;
  // The memory of the link, until the queue pair takes it over.
  std::optional<LinkMemory> link;
  // Carries the link, if the peer is on another host, until the queue pair
  // takes it over.
  std::shared_ptr<LinkDriver> driver;
  // The socket has reached its end, or what came from it was garbage.
  bool peer_gone = false;
  // Whose process has the other end of the socket; nothing for a relay of our
  // own, behind which there may be anybody.
  std::optional<uid_t> peer_user;
  // The pause before the next attempt to reach a listener whose queue is full;
  // zero before the first.
  std::chrono::milliseconds pause{0};
  // Keeps the local address while `socket` leads to a relay.
  base::UniqueFd address_holder;
};

// The object behind an rdma_cm_id. Two sides share it: the user, from create_id
// (or the CONNECT_REQUEST) to destroy_id, and the callbacks of the engine that
// are under way.
//
// The fields that users read in rdma_cm_id have no lock. They change only
// before the event that tells of the change is in the channel.
struct CmEndpoint : rdma_cm_id,
                    RsocketView,
                    std::enable_shared_from_this<CmEndpoint> {
  CmEndpoint() : rdma_cm_id{} {}
  static CmEndpoint* From(rdma_cm_id* id) {
    return static_cast<CmEndpoint*>(id);
  }

  base::SocketAddress Local() const {
    return base::SocketAddress::FromSockaddr(&route.addr.src_addr);
  }
  base::SocketAddress Peer() const {
    return base::SocketAddress::FromSockaddr(&route.addr.dst_addr);
  }
  void SetLocal(const base::SocketAddress& address);
  void SetPeer(const base::SocketAddress& address);

  // REQUIRES: CanTransition(state, to).
  void Transition(CmState to) ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);

  // Constant once the manager has made the endpoint; both outlive it.
  ConnectionManager* manager = nullptr;
  PortSpace* port_space = nullptr;

  CmState state ABSL_GUARDED_BY(kEndpoints) = CmState::kIdle;

  // The socket that is bound to the local address. It listens, or is connected
  // to the peer's socket; in the port space UDP it takes the messages for that
  // address. Not valid before the endpoint is bound, nor after it was destroyed
  // or has failed.
  base::UniqueFd socket ABSL_GUARDED_BY(kEndpoints);

  // RDMA_OPTION_ID_AFONLY: a wildcard of IPv6 does not stand for IPv4 too.
  bool ipv6_only ABSL_GUARDED_BY(kEndpoints) = false;
  // RDMA_OPTION_ID_TOS, of what goes to other hosts.
  uint8_t traffic_class ABSL_GUARDED_BY(kEndpoints) = 0;
  // RDMA_OPTION_ID_ACK_TIMEOUT. By default 4.096 us * 2^14 = 67 ms.
  uint8_t ack_timeout ABSL_GUARDED_BY(kEndpoints) = 14;

  // The time to give up at, in kConnecting and kAccepting.
  Clock::TimePoint deadline ABSL_GUARDED_BY(kEndpoints);

  ListenerRecord listening ABSL_GUARDED_BY(kEndpoints);
  ConnectionRecord connection ABSL_GUARDED_BY(kEndpoints);

  // The rest is kept by CmEvents.

  // The user's share of the endpoint: null before the user knows it and after
  // destroy_id.
  std::shared_ptr<CmEndpoint> user_reference ABSL_GUARDED_BY(kEvents);
  // Events that the user has read and not acknowledged yet.
  int events_unacked ABSL_GUARDED_BY(kEvents) = 0;
  // CONNECT_REQUEST events of this listener that the user has not read yet.
  int requests_unread ABSL_GUARDED_BY(kEvents) = 0;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CM_CM_ENDPOINT_H_
