#include "transport/client/lease_windows.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace verbena::transport {

// Makes a window at once, so that a device without windows fails the connection
// and not the first lease.
absl::Status LeaseWindows::Open(const ProtectionDomain& pd) {
  absl::StatusOr<MemoryWindow> first = MemoryWindow::Create(pd);
  if (!first.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("revoke_leases needs memory windows of type 2, which the "
                     "device does not provide: ",
                     first.status().message()));
  }
  all_.push_back(std::make_unique<LeaseWindow>(*std::move(first)));
  spare_.push_back(all_.back().get());
  pd_ = &pd;
  return absl::OkStatus();
}

LeaseWindow* LeaseWindows::Take() {
  if (spare_.empty()) {
    absl::StatusOr<MemoryWindow> another = MemoryWindow::Create(*pd_);
    // Others are in use, and one of them will come back.
    if (!another.ok()) return nullptr;
    all_.push_back(std::make_unique<LeaseWindow>(*std::move(another)));
    // GiveBack() then never allocates.
    spare_.reserve(all_.size());
    spare_.push_back(all_.back().get());
  }
  LeaseWindow* const window = spare_.back();
  spare_.pop_back();
  // When the binding is posted, which is after this, the device looks in the
  // window for the key that it had until then.
  window->window->get()->rkey = window->rkey;
  // Only the low eight bits are ours to choose, so the same key comes again
  // after 256 leases: it is the binding that protects, and not the key.
  window->rkey = ibv_inc_rkey(window->rkey);
  return window;
}

void LeaseWindows::NoteInvalidated(uint32_t rkey) {
  const auto found =
      std::find_if(all_.begin(), all_.end(), [rkey](const auto& window) {
        return window->bound && window->rkey == rkey;
      });
  if (found != all_.end()) (*found)->bound = false;
}

}  // namespace verbena::transport
