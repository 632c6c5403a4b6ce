// Owner of a memory window of type 2.

#ifndef VERBENA_TRANSPORT_VERBS_MEMORY_WINDOW_H_
#define VERBENA_TRANSPORT_VERBS_MEMORY_WINDOW_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "transport/verbs/protection_domain.h"

namespace verbena::transport {

// Owns an ibv_mw of type 2: a work request binds it to a part of a region, for
// the peer of that queue pair and under a key of its own, and the peer's SEND
// with invalidate takes that key back. The protection domain and the regions
// it is bound to must outlive it, and so should its queue pair: rdma_rxe keeps
// one for 50 s that has bound windows. Not thread-safe.
class MemoryWindow {
 public:
  // Fails where the device has no such windows, or no more of them.
  static absl::StatusOr<MemoryWindow> Create(const ProtectionDomain& pd);

  ibv_mw* get() const { return window_.get(); }
  uint32_t rkey() const { return window_->rkey; }

 private:
  struct Deallocate {
    void operator()(ibv_mw* window) const;
  };

  explicit MemoryWindow(ibv_mw* window) : window_(window) {}

  std::unique_ptr<ibv_mw, Deallocate> window_;
};

// The key that the message of this completion, a success, has invalidated here.
std::optional<uint32_t> InvalidatedKey(const ibv_wc& completion);

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_VERBS_MEMORY_WINDOW_H_
