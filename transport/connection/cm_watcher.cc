#include "transport/connection/cm_watcher.h"

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace verbena::transport {

void CmWatcher::OnReadable() {
  while (true) {
    const absl::StatusOr<std::optional<CmEvent>> event = channel_.Poll();
    // A channel that can't be read any more reports nothing; keepalive ends the
    // connections whose peers are gone.
    if (!event.ok() || !event->has_value()) return;
    Handle(**event);
  }
}

void CmWatcher::Handle(const CmEvent& event) {
  const auto found = connections_.find(event.id);
  if (found == connections_.end()) return;
  Connection* const connection = found->second;
  switch (event.type) {
    case RDMA_CM_EVENT_ESTABLISHED:
      connection->OnEstablished();
      return;
    case RDMA_CM_EVENT_DISCONNECTED:
      connection->OnDisconnected(absl::UnavailableError(absl::StrCat(
          "the peer ", connection->peer(), " closed the connection")));
      return;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      connection->OnDisconnected(absl::UnavailableError(
          absl::StrCat("the device of the connection with ", connection->peer(),
                       " was removed")));
      return;
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return;
    default: {
      const absl::Status status = CmEventStatus(event, connection->peer());
      if (!status.ok()) connection->OnDisconnected(status);
      return;
    }
  }
}

}  // namespace verbena::transport
