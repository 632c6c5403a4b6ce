#include "transport/memory/registered_memory.h"

#include <utility>

#include "transport/base/status_macros.h"

namespace verbena::transport {

absl::StatusOr<RegisteredMemory> RegisteredMemory::Create(
    const ProtectionDomain& pd, size_t bytes, int access) {
  // If the registration fails, the pages go back to the kernel at once.
  ASSIGN_OR_RETURN(MappedMemory memory, MappedMemory::Create(bytes));
  ASSIGN_OR_RETURN(MemoryRegion region,
                   MemoryRegion::Create(pd, memory.span(), access));
  return RegisteredMemory(std::move(memory), std::move(region));
}

RegisteredMemory::RegisteredMemory(MappedMemory memory, MemoryRegion region)
    : memory_(std::move(memory)), region_(std::move(region)) {}

RegisteredMemory& RegisteredMemory::operator=(
    RegisteredMemory&& other) noexcept {
  // The old registration must go before the old memory does, so this is not the
  // order of the members.
  region_ = std::move(other.region_);
  memory_ = std::move(other.memory_);
  return *this;
}

}  // namespace verbena::transport
