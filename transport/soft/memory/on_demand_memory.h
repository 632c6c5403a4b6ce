// Memory registered with IBV_ACCESS_ON_DEMAND: its pages may be missing.

#ifndef VERBENA_TRANSPORT_SOFT_MEMORY_ON_DEMAND_MEMORY_H_
#define VERBENA_TRANSPORT_SOFT_MEMORY_ON_DEMAND_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "transport/soft/memory/memory_table.h"

namespace verbena::soft {

// A region whose pages may be missing must not be touched by a plain copy: a
// peer that names a page that was unmapped would end the process. The kernel
// copies instead (process_vm_readv and _writev on the own process): it brings
// pages in, and says so when there are none. That is a system call for each
// copy.
//
// The owner of an on-demand region in the table is not its protection domain
// (OnDemandOwner()), so MemoryTable::Translate() does not find it. Ordinary
// regions thus cost nothing more. If Translate() finds nothing, callers use the
// functions below.
//
// Thread-safe.

// Whether the kernel lets this process copy its own memory so. It is asked
// once.
bool CanAccessOnDemand();

// The owner under which a region of `owner` is to be entered.
inline const void* OnDemandOwner(const void* owner) {
  return static_cast<const std::byte*>(owner) + 1;
}

// Whether `key` names a region on demand of `owner` that contains the range and
// allows `access`; see MemoryTable::Translate(). Its pages may still be
// missing.
bool AllowsOnDemand(const MemoryTable& memory, uint32_t key, const void* owner,
                    uint64_t address, uint64_t length, unsigned int access);

// Copies out of, or into, a region on demand. False when the region does not
// allow it, or when a page is not there; then some bytes may have been copied.
bool ReadOnDemand(const MemoryTable& memory, uint32_t key, const void* owner,
                  uint64_t address, uint64_t length, unsigned int access,
                  std::byte* to);
bool WriteOnDemand(const MemoryTable& memory, uint32_t key, const void* owner,
                   uint64_t address, uint64_t length, unsigned int access,
                   const std::byte* from);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_MEMORY_ON_DEMAND_MEMORY_H_
