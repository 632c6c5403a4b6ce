// The objects behind rdma_cm_id, rdma_event_channel and rdma_cm_event.

#ifndef VERBENA_TRANSPORT_SOFT_CM_CM_ENDPOINT_H_
#define VERBENA_TRANSPORT_SOFT_CM_CM_ENDPOINT_H_

#include <rdma/rdma_cma.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transport/base/socket_address.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/base/clock.h"
#include "transport/soft/address/cm_datagram.h"
#include "transport/soft/link/cm_message.h"
#include "transport/soft/cm/cm_state.h"
#include "transport/soft/link/link.h"

namespace verbena::soft {

// Everything in this file is protected by the mutex of the ConnectionManager,
// but for the fields that users read in rdma_cm_id, which change only before
// the event that tells of the change.

// What librdmacm's rsockets find behind an rdma_cm_id when the rest of
// librdmacm is replaced by ours. They read there two things besides what is
// public: that the identifier is synchronous (a word that is not zero), and by
// a pointer to the device the deepest queue that they may ask for (16 bits).
// Where the two stand differs between versions, so they stand everywhere.
struct RsocketView {
  RsocketView() {
    rest_of_id.fill(1);
    queue_depth.fill(512);
  }

  const void* device = &queue_depth;
  std::array<uint32_t, 64> rest_of_id;
  std::array<uint16_t, 128> queue_depth;
};

// What an rdma_cm_id is. Shared by the user, from create_id (or the
// CONNECT_REQUEST) to destroy_id, and by the engine's callbacks under way.
struct CmEndpoint final : rdma_cm_id,
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
  void Transition(CmState to);

  CmState state = CmState::kIdle;
  std::shared_ptr<CmEndpoint> user_reference;  // Null after destroy_id.
  int events_unacked = 0;  // Events read by the user and not acknowledged yet.

  // Bound to the local address. Listens, or leads to the peer's socket.
  base::UniqueFd socket;
  // Holds the local address while `socket` leads to a relay.
  base::UniqueFd address_holder;
  bool relayed = false;  // `socket` leads to a relay.

  // Options.
  bool ipv6_only = false;
  uint8_t ack_timeout = 14;  // 4.096 us * 2^14 = 67 ms.

  // Of a listener. A half-open connection has been accepted from the socket but
  // has not sent its request yet; its key is never reused.
  int backlog = 0;
  int requests_unread = 0;  // CONNECT_REQUEST events in the channel.
  struct HalfOpen {
    base::UniqueFd socket;
    base::SocketAddress remote;  // The peer, when it is on another host.
  };
  std::map<uint64_t, HalfOpen> half_open;

  // Of a connection.
  CmMessage request;               // That was sent, or received.
  std::optional<LinkMemory> link;  // Until the queue pair has it.
  bool request_sent = false;
  bool peer_gone = false;  // The socket has ended.
  // Of the port space UDP.
  CmDatagram datagram;     // The question, or the answer that was given.
  bool reachable = false;  // It counts as a receiver of the DatagramNetwork.
  // Of a listener: by the asker's address and name for it.
  std::map<std::pair<std::string, uint64_t>, std::weak_ptr<CmEndpoint>>
      questions;
  struct Group {
    ibv_gid gid;
    bool attached;  // The queue pair is.
  };
  std::vector<Group> groups;

  // When to give up: in kConnecting and kAccepting.
  Clock::TimePoint deadline;
};

// One event, from the moment it is raised until it is acknowledged.
struct CmEventRecord final : rdma_cm_event {
  CmEventRecord() : rdma_cm_event{} {}
  static CmEventRecord* From(rdma_cm_event* event) {
    return static_cast<CmEventRecord*>(event);
  }

  std::shared_ptr<CmEndpoint> owner;  // Whose destroy_id waits for it.
  std::shared_ptr<CmEndpoint> child;  // With CONNECT_REQUEST, the new id.
  std::array<uint8_t, kReplyDataBytes> private_data = {};
};

// What an rdma_event_channel is: a queue whose descriptor is readable while
// there is anything in it.
class CmChannel final : public rdma_event_channel {
 public:
  // Null and errno when out of descriptors.
  static std::unique_ptr<CmChannel> Create();
  static CmChannel* From(rdma_event_channel* channel) {
    return static_cast<CmChannel*>(channel);
  }

  void Push(std::unique_ptr<CmEventRecord> event);
  // Null when empty.
  std::unique_ptr<CmEventRecord> Pop();
  // Takes the events of `owner` out, in order.
  std::vector<std::unique_ptr<CmEventRecord>> Remove(const CmEndpoint& owner);

  // The user has destroyed it. What is left is for threads that still ask; what
  // nobody has read is returned.
  std::deque<std::unique_ptr<CmEventRecord>> Close();
  bool closed() const { return !event_fd_.valid(); }

 private:
  CmChannel() : rdma_event_channel{} {}
  void SetReadable(bool readable);

  base::UniqueFd event_fd_;  // The same as rdma_event_channel::fd.
  std::deque<std::unique_ptr<CmEventRecord>> events_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CM_CM_ENDPOINT_H_
