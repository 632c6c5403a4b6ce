// The memory windows through which a client lends what replies are written to.

#ifndef VERBENA_TRANSPORT_CLIENT_LEASE_WINDOWS_H_
#define VERBENA_TRANSPORT_CLIENT_LEASE_WINDOWS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "transport/base/buffer.h"
#include "transport/verbs/memory_window.h"
#include "transport/verbs/protection_domain.h"

namespace verbena::transport {

// A window, which is bound to one lease at a time.
struct LeaseWindow {
  explicit LeaseWindow(MemoryWindow made)
      : window(std::move(made)), rkey(window->rkey()) {}

  std::optional<MemoryWindow> window;  // Nothing once it is closed.
  uint32_t rkey;                       // The one it was bound under last.
  bool bound = false;  // The server may write there, for all we know.
  // What the window is bound to, while this side takes it back itself.
  Buffer taken_back;
};

// As many windows of type 2 as one connection ever had leases at once. Confined
// to the poller's thread.
class LeaseWindows {
 public:
  // Leases have windows of `pd` from now on. FAILED_PRECONDITION if the device
  // has none.
  absl::Status Open(const ProtectionDomain& pd);
  bool open() const { return pd_ != nullptr; }

  // Closes them all, bound or not, for good; the queue pair is to be drained
  // and still there. What was taken may be given back.
  void Close() {
    spare_.clear();
    for (const auto& each : all_) each->window.reset();
  }

  // Returns a window that is not bound, with a new key. Null if the device has
  // no more, but never if none is in use.
  LeaseWindow* Take();
  // Gives a window back, to be taken again. If it is still bound, the
  // connection is being lost, and the window is not used again.
  void GiveBack(LeaseWindow* window) {
    if (!window->bound) spare_.push_back(window);
  }
  // The server's message has invalidated this key, so the window bound under it
  // is not bound any more. Does nothing if no window has the key.
  void NoteInvalidated(uint32_t rkey);

 private:
  const ProtectionDomain* pd_ = nullptr;  // Null while not open.
  std::vector<std::unique_ptr<LeaseWindow>> all_;
  std::vector<LeaseWindow*> spare_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CLIENT_LEASE_WINDOWS_H_
