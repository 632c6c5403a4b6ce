#ifndef VERBENA_TRANSPORT_VERBS_CM_ID_H_
#define VERBENA_TRANSPORT_VERBS_CM_ID_H_

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/base/socket_address.h"
#include "transport/verbs/event_channel.h"
#include "transport/verbs/provider.h"

namespace verbena::transport {

// The private data that InfiniBand lets the three messages carry. Devices may
// carry more.
inline constexpr size_t kConnectPrivateDataMax = 56;
inline constexpr size_t kAcceptPrivateDataMax = 196;
inline constexpr size_t kRejectPrivateDataMax = 148;

// Parameters that one side passes to the other when they connect.
struct ConnectionParameters {
  absl::Span<const uint8_t> private_data = {};

  // RDMA READs that the peer may have under way towards us, and we towards it.
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;

  // Retransmissions before the queue pair fails; 7 receiver-not-ready retries
  // mean for ever.
  uint8_t retry_count = 7;
  uint8_t rnr_retry_count = 7;
};

// Owns an rdma_cm_id, which is a socket of the connection manager, and its
// queue pair if it has one. It is a listener or one end of a connection; before
// it listens or resolves an address it may become either.
//
// The Provider and the EventChannel must outlive it; so must the protection
// domain and the queues given to CreateQp(). Moving it leaves the rdma_cm_id
// where it is. What a method starts, an event on the channel ends.
//
// Not thread-safe. It must be destroyed on the thread that reads its channel,
// or after that thread has stopped: see CmEvent. The destructor aborts if the
// device refuses.
//
// Errors name the verb and the address of the peer, or of this side before
// there is a peer.
class CmId {
 public:
  // `context` is what get()->context will be; nobody reads it here.
  static absl::StatusOr<CmId> Create(const Provider& provider,
                                     const EventChannel& channel,
                                     void* context = nullptr);

  // Takes over the new id of a CONNECT_REQUEST.
  static CmId Adopt(const Provider& provider, rdma_cm_id* id);

  CmId(CmId&& other) noexcept;
  CmId& operator=(CmId&& other) noexcept;
  ~CmId();

  // Port 0 chooses a free one: see SrcPort().
  absl::Status BindAddr(const base::SocketAddress& address);
  absl::Status Listen(int backlog);

  // Ends with ADDR_RESOLVED or ADDR_ERROR. An empty `source` lets the routing
  // tables choose.
  absl::Status ResolveAddr(const base::SocketAddress& source,
                           const base::SocketAddress& destination,
                           absl::Duration timeout);
  // Ends with ROUTE_RESOLVED or ROUTE_ERROR.
  absl::Status ResolveRoute(absl::Duration timeout);

  // Gives the id a queue pair, ready for receives to be posted; connecting or
  // accepting takes it through its other states. `attributes` are updated to
  // what the device really gave.
  absl::Status CreateQp(ibv_pd* pd, ibv_qp_init_attr* attributes);
  // Does nothing if there is no queue pair.
  void DestroyQp();

  // Ends with ESTABLISHED, REJECTED, UNREACHABLE or CONNECT_ERROR.
  absl::Status Connect(const ConnectionParameters& parameters);
  // Ends with ESTABLISHED or CONNECT_ERROR.
  absl::Status Accept(const ConnectionParameters& parameters);
  absl::Status Reject(absl::Span<const uint8_t> private_data);
  // Flushes the queue pair; both sides see DISCONNECTED.
  absl::Status Disconnect();

  // Moves the id, with its events that are not read yet, to another channel.
  absl::Status MigrateTo(const EventChannel& channel);

  absl::Status SetOption(int level, int option, void* value, size_t length);
  // How long to wait for the acknowledgement of a packet before sending it
  // again: 4.096 us * 2^exponent. Before Connect() or Accept().
  absl::Status SetAckTimeout(uint8_t exponent);

  // The traffic class of what is sent: see RDMA_OPTION_ID_TOS. To be set before
  // the route is resolved, or before Listen().
  absl::Status SetTrafficClass(uint8_t traffic_class);
  // Whether a wildcard IPv6 listener leaves IPv4 to others. Before BindAddr().
  absl::Status SetIpv6Only(bool only);
  // Whether an address may be bound while old connections of it linger. Before
  // BindAddr().
  absl::Status SetReuseAddress(bool reuse);

  // Empty as long as they are not known.
  base::SocketAddress LocalAddress() const;
  base::SocketAddress PeerAddress() const;
  // In host byte order; 0 before BindAddr().
  uint16_t SrcPort() const;

  // Null until the id is bound to a device.
  ibv_context* context() const { return id_->verbs; }
  uint8_t port_num() const { return id_->port_num; }
  ibv_qp* qp() const { return id_->qp; }
  rdma_cm_id* get() const { return id_; }

 private:
  CmId(const CmOps& ops, rdma_cm_id* id) : ops_(&ops), id_(id) {}

  // OK when `result`, of `verb`, is 0; else what errno says.
  absl::Status Check(absl::string_view verb, int result) const;
  void Destroy();

  const CmOps* ops_;  // The table of the Provider.
  rdma_cm_id* id_;    // Null only in a moved-from object.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_VERBS_CM_ID_H_
