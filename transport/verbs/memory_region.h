// Owner of a memory registration.

#ifndef VERBENA_TRANSPORT_VERBS_MEMORY_REGION_H_
#define VERBENA_TRANSPORT_VERBS_MEMORY_REGION_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "transport/verbs/protection_domain.h"
#include "transport/verbs/verbs_handle.h"
#include "transport/verbs/verbs_ops.h"

namespace verbena::transport {

// Owns an ibv_mr: memory that the device may access. It does not own the
// memory, which must outlive it, as must the protection domain. Not
// thread-safe.
class MemoryRegion : public VerbsHandle<ibv_mr, &VerbsOps::dereg_mr> {
 public:
  // `access` is a set of IBV_ACCESS_ flags.
  static absl::StatusOr<MemoryRegion> Create(const ProtectionDomain& pd,
                                             absl::Span<uint8_t> memory,
                                             int access);

  MemoryRegion() = default;

  uint32_t lkey() const { return get()->lkey; }
  uint32_t rkey() const { return get()->rkey; }

 private:
  using VerbsHandle::VerbsHandle;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_VERBS_MEMORY_REGION_H_
