#include "transport/device/cm_watcher.h"

#include <optional>

#include "absl/status/statusor.h"

namespace verbena::transport {

void CmWatcher::OnReadable() {
  while (true) {
    const absl::StatusOr<std::optional<CmEvent>> event = channel_.Poll();
    // A channel that can't be read any more reports nothing; keepalive ends the
    // connections whose peers are gone.
    if (!event.ok() || !event->has_value()) return;
    const auto found = handlers_.find((*event)->id);
    // An event may come for an id that nobody watches any more. The handler may
    // stop watching, so `found` is not used again.
    if (found != handlers_.end()) found->second->OnCmEvent(**event);
  }
}

}  // namespace verbena::transport
