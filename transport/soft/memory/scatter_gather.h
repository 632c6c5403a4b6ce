// Copies between the rings of a link and the memory that scatter/gather entries
// name.

#ifndef VERBENA_TRANSPORT_SOFT_MEMORY_SCATTER_GATHER_H_
#define VERBENA_TRANSPORT_SOFT_MEMORY_SCATTER_GATHER_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "transport/soft/base/copy_bytes.h"
#include "transport/soft/memory/memory_table.h"

namespace verbena::soft {

class ProtectionDomain;

// The entries of one work request. It borrows them, the table and the
// protection domain. Any thread may use it as long as they live.
struct ScatterGatherList {
  const MemoryTable* memory;
  const ProtectionDomain* pd;
  const ibv_sge* entries;
  int count;

  uint64_t TotalBytes() const {
    uint64_t total = 0;
    for (int i = 0; i < count; ++i) total += entries[i].length;
    return total;
  }

  // Whether every entry lies in a region of the protection domain with all of
  // `access`.
  bool Allows(unsigned int access) const;

  // Copies the `length` bytes that start `offset` bytes into the list to
  // `destination`. False when an entry is not, or no longer, readable.
  // REQUIRES: offset + length <= TotalBytes(), here and below.
  bool Gather(uint64_t offset, uint32_t length, std::byte* destination) const {
    if (!InFirstEntry(offset, length)) {
      return GatherParts(offset, length, destination);
    }
    const std::byte* const from =
        memory->Translate(entries->lkey, pd, entries->addr + offset, length, 0);
    // The entry may be in memory on demand, which GatherParts() looks for.
    if (from == nullptr) return GatherParts(offset, length, destination);
    CopyBytes(destination, from, length);
    return true;
  }

  // Copies `length` bytes from `source` to `offset` bytes into the list. False
  // when an entry is not, or no longer, writable.
  bool Scatter(uint64_t offset, uint32_t length,
               const std::byte* source) const {
    if (!InFirstEntry(offset, length)) {
      return ScatterParts(offset, length, source);
    }
    std::byte* const to =
        memory->Translate(entries->lkey, pd, entries->addr + offset, length,
                          IBV_ACCESS_LOCAL_WRITE);
    if (to == nullptr) return ScatterParts(offset, length, source);
    CopyBytes(to, source, length);
    return true;
  }

 private:
  // Whether the bytes lie in the first entry, as they mostly do.
  bool InFirstEntry(uint64_t offset, uint32_t length) const {
    return count > 0 && length > 0 && offset + length <= entries->length;
  }
  bool GatherParts(uint64_t offset, uint32_t length,
                   std::byte* destination) const;
  bool ScatterParts(uint64_t offset, uint32_t length,
                    const std::byte* source) const;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_MEMORY_SCATTER_GATHER_H_
