// Events of the connection manager, as values.

#ifndef VERBENA_TRANSPORT_VERBS_CM_EVENT_H_
#define VERBENA_TRANSPORT_VERBS_CM_EVENT_H_

#include <rdma/rdma_cma.h>

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace verbena::transport {

// An event of an EventChannel, already acknowledged: it owns all its bytes,
// and holds back no destroy_id. The ids in it are named, not kept alive. Ids
// must be destroyed on the thread that reads their channel, or after that
// thread has stopped.
struct CmEvent {
  rdma_cm_event_type type = RDMA_CM_EVENT_ADDR_RESOLVED;

  // The id that the event is about. With CONNECT_REQUEST it is new, and whoever
  // reads the event owns it: see CmId::Adopt().
  rdma_cm_id* id = nullptr;
  // With CONNECT_REQUEST, the id that listens; else null.
  rdma_cm_id* listen_id = nullptr;

  // 0, a negative errno, or with REJECTED the reason as InfiniBand numbers it.
  // -1, and not EPERM, where librdmacm itself could not go on.
  int status = 0;

  // With CONNECT_REQUEST and ESTABLISHED: what the peer has said, with the two
  // depths exchanged, so that it is what this side may use in its own accept.
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;

  // Returns the private data that the peer passed to connect, accept or reject.
  // Devices may pad it with zeros to a fixed length, so the data must say its
  // own length.
  absl::Span<const uint8_t> private_data() const {
    return absl::MakeConstSpan(private_data_bytes.data(), private_data_length);
  }

  uint8_t private_data_length = 0;
  std::array<uint8_t, 255> private_data_bytes = {};

  // Copies everything out of `event`, which the caller then acknowledges.
  static CmEvent FromRdma(const rdma_cm_event& event);
};

// With REJECTED, the reasons that matter.
inline constexpr int kRejectNoResources = 3;
inline constexpr int kRejectNobodyListens = 8;   // Invalid service ID.
inline constexpr int kRejectByApplication = 28;  // Consumer defined.

// Whether a REJECTED with this status is from the application, whose private
// data it brings. iWARP has no reasons, and reports ECONNRESET.
bool IsRejectByApplication(int status);

// Two reasons that only the software device gives; see
// transport/soft/link/cm_message.h.
inline constexpr int kRejectOtherUser = 0x5601;
inline constexpr int kRejectForeignPort = 0x5602;

// "CONNECT_REQUEST" and the like. Never null.
const char* CmEventName(rdma_cm_event_type type);

// OK when `event` is progress (resolved, connect request or response,
// established, time-wait over); else what went wrong, for an id whose peer is
// `peer`. With REJECTED by the application the caller can say more, from the
// private data.
absl::Status CmEventStatus(const CmEvent& event, absl::string_view peer);

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_VERBS_CM_EVENT_H_
