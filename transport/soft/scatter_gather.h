// Copies between the rings of a link and the memory that scatter/gather entries
// name.

#ifndef VERBENA_TRANSPORT_SOFT_SCATTER_GATHER_H_
#define VERBENA_TRANSPORT_SOFT_SCATTER_GATHER_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "transport/soft/memory_table.h"

namespace verbena::soft {

// The entries of one work request. Borrows them, the table and the protection
// domain.
struct ScatterGatherList {
  const MemoryTable* memory;
  const ProtectionDomain* pd;
  const ibv_sge* entries;
  int count;

  uint64_t TotalBytes() const;

  // Whether every entry lies in a region of the protection domain with all of
  // `access`.
  bool Allows(unsigned int access) const;

  // Copies the `length` bytes that start `offset` bytes into the list to
  // `destination`. False when an entry is not, or no longer, readable.
  // REQUIRES: offset + length <= TotalBytes(), here and below.
  bool Gather(uint64_t offset, uint32_t length, std::byte* destination) const;

  // Copies `length` bytes from `source` to `offset` bytes into the list. False
  // when an entry is not, or no longer, writable.
  bool Scatter(uint64_t offset, uint32_t length, const std::byte* source) const;
};

// memcpy, except that it stays fast when one side is not aligned to 64 bytes.
void CopyBytes(void* destination, const void* source, size_t length);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_SCATTER_GATHER_H_
