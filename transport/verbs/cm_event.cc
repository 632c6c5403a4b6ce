#include "transport/verbs/cm_event.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "transport/verbs/error.h"

namespace verbena::transport {
namespace {

// Whether the connection parameters are valid with this event; with the others
// librdmacm leaves the union as it was.
bool HasParameters(rdma_cm_event_type type) {
  return type == RDMA_CM_EVENT_CONNECT_REQUEST ||
         type == RDMA_CM_EVENT_CONNECT_RESPONSE ||
         type == RDMA_CM_EVENT_ESTABLISHED || type == RDMA_CM_EVENT_REJECTED;
}

// An event is handled by librdmacm first, which asks the kernel for more. If
// the kernel refuses, mostly because the peer is gone by then, all that is told
// is -1, which is no errno.
absl::Status EventError(absl::string_view verb, absl::string_view peer,
                        int status) {
  if (status == -1) {
    return absl::UnavailableError(absl::StrCat(
        verb, " ", peer,
        ": the answer cannot be used, probably because the peer is gone"));
  }
  return ErrnoStatus(verb, peer, status);
}

// Takes the reasons apart by who refused: nobody listened, the kernel or
// device, the application, or the software device by its two own reasons.
absl::Status Rejected(int reason, absl::string_view peer) {
  // iWARP reports an errno where InfiniBand and RoCE report a reason.
  if (reason == kRejectNobodyListens || reason == -ECONNREFUSED) {
    return absl::UnavailableError(
        absl::StrCat("connect ", peer, ": refused, nobody listens there"));
  }
  if (reason == kRejectNoResources) {
    return absl::UnavailableError(absl::StrCat(
        "connect ", peer,
        ": refused, the server is out of file descriptors or memory (see "
        "`ulimit -n` there)"));
  }
  if (IsRejectByApplication(reason)) {
    return absl::UnavailableError(
        absl::StrCat("connect ", peer, ": rejected by the peer"));
  }
  if (reason == kRejectOtherUser) {
    return absl::PermissionDeniedError(
        absl::StrCat("connect ", peer,
                     ": refused, a process of another user listens there "
                     "(VERBENA_SOFT_PEERS names users to be allowed)"));
  }
  if (reason == kRejectForeignPort) {
    return absl::UnavailableError(
        absl::StrCat("connect ", peer,
                     ": another program answers at that TCP port, or another "
                     "version of the software device"));
  }
  return absl::UnavailableError(
      absl::StrCat("connect ", peer, ": rejected, reason ", reason));
}

}  // namespace

bool IsRejectByApplication(int status) {
  return status == kRejectByApplication || status == -ECONNRESET;
}

// Copies every field that the caller may use, because the acknowledgement frees
// the event.
CmEvent CmEvent::FromRdma(const rdma_cm_event& event) {
  CmEvent result;
  result.type = event.event;
  result.id = event.id;
  result.listen_id = event.listen_id;
  result.status = event.status;
  if (!HasParameters(event.event)) return result;
  const rdma_conn_param& parameters = event.param.conn;
  result.responder_resources = parameters.responder_resources;
  result.initiator_depth = parameters.initiator_depth;
  if (parameters.private_data == nullptr) return result;
  // Padding comes along: only the data themselves say where they end.
  result.private_data_length = parameters.private_data_len;
  // A length has 8 bits, so the array holds any.
  std::memcpy(result.private_data_bytes.data(), parameters.private_data,
              parameters.private_data_len);
  return result;
}

// Names are those of the enumeration without RDMA_CM_EVENT_.
const char* CmEventName(rdma_cm_event_type type) {
  switch (type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      return "ADDR_RESOLVED";
    case RDMA_CM_EVENT_ADDR_ERROR:
      return "ADDR_ERROR";
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      return "ROUTE_RESOLVED";
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return "ROUTE_ERROR";
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      return "CONNECT_REQUEST";
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      return "CONNECT_RESPONSE";
    case RDMA_CM_EVENT_CONNECT_ERROR:
      return "CONNECT_ERROR";
    case RDMA_CM_EVENT_UNREACHABLE:
      return "UNREACHABLE";
    case RDMA_CM_EVENT_REJECTED:
      return "REJECTED";
    case RDMA_CM_EVENT_ESTABLISHED:
      return "ESTABLISHED";
    case RDMA_CM_EVENT_DISCONNECTED:
      return "DISCONNECTED";
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return "DEVICE_REMOVAL";
    case RDMA_CM_EVENT_MULTICAST_JOIN:
      return "MULTICAST_JOIN";
    case RDMA_CM_EVENT_MULTICAST_ERROR:
      return "MULTICAST_ERROR";
    case RDMA_CM_EVENT_ADDR_CHANGE:
      return "ADDR_CHANGE";
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return "TIMEWAIT_EXIT";
  }
  return "unknown event";
}

// Sorts events into progress, failures that bring an errno, rejections, and
// ends of a connection.
absl::Status CmEventStatus(const CmEvent& event, absl::string_view peer) {
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
    case RDMA_CM_EVENT_CONNECT_REQUEST:
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
    case RDMA_CM_EVENT_ESTABLISHED:
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
    // The address has moved to another interface of a bond, say. If that cuts
    // the connection, the device gives up, or nobody answers the keepalive.
    case RDMA_CM_EVENT_ADDR_CHANGE:
      return absl::OkStatus();
    case RDMA_CM_EVENT_ADDR_ERROR:
      return EventError("resolve_addr", peer, event.status);
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return EventError("resolve_route", peer, event.status);
    case RDMA_CM_EVENT_REJECTED:
      return Rejected(event.status, peer);
    case RDMA_CM_EVENT_UNREACHABLE:
      return absl::UnavailableError(
          absl::StrCat("connect ", peer, ": no answer in time"));
    case RDMA_CM_EVENT_CONNECT_ERROR:
      return EventError("connect", peer, event.status);
    case RDMA_CM_EVENT_DISCONNECTED:
      return absl::UnavailableError(
          absl::StrCat("connection with ", peer, ": disconnected"));
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return absl::UnavailableError(
          absl::StrCat("connection with ", peer, ": the device was removed"));
    // Multicast is no progress of a connection that this library makes.
    default:
      return absl::UnavailableError(absl::StrCat("connection with ", peer, ": ",
                                                 CmEventName(event.type),
                                                 ", status ", event.status));
  }
}

}  // namespace verbena::transport
