// Memory of our own that a device may access.

#ifndef VERBENA_TRANSPORT_MEMORY_REGISTERED_MEMORY_H_
#define VERBENA_TRANSPORT_MEMORY_REGISTERED_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "transport/memory/mapped_memory.h"
#include "transport/verbs/memory_region.h"
#include "transport/verbs/protection_domain.h"

namespace verbena::transport {

// Owns memory and its registration. The protection domain must outlive it, and
// no work request that names the memory may be outstanding when it is
// destroyed.
//
// Move-only; the address and the keys stay the same when it moves. Not
// thread-safe.
class RegisteredMemory {
 public:
  // `access` is a set of IBV_ACCESS_ flags. Fails as MappedMemory and
  // MemoryRegion do.
  static absl::StatusOr<RegisteredMemory> Create(const ProtectionDomain& pd,
                                                 size_t bytes, int access);

  RegisteredMemory() = default;
  RegisteredMemory(RegisteredMemory&& other) noexcept = default;
  RegisteredMemory& operator=(RegisteredMemory&& other) noexcept;

  uint8_t* data() const { return memory_.data(); }
  size_t size() const { return memory_.size(); }
  absl::Span<uint8_t> span() const { return memory_.span(); }

  // Takes the memory from the device and keeps it.
  void Deregister() { region_ = MemoryRegion(); }

  // REQUIRES: neither default-constructed, moved from nor deregistered.
  uint32_t lkey() const { return region_.lkey(); }
  uint32_t rkey() const { return region_.rkey(); }
  ibv_mr* region() const { return region_.get(); }

 private:
  RegisteredMemory(MappedMemory memory, MemoryRegion region);

  MappedMemory memory_;
  MemoryRegion region_;  // The region of memory_, so destroyed before it.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_MEMORY_REGISTERED_MEMORY_H_
