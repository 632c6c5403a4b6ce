#include <algorithm>

#include "transport/soft/memory/on_demand_memory.h"
#include "transport/soft/memory/scatter_gather.h"

namespace verbena::soft {
namespace {

// Calls `part(entry, address, bytes)` for each piece of [offset, offset+length)
// in order, until one answers false.
template <typename Part>
bool ForEachPart(const ScatterGatherList& list, uint64_t offset,
                 uint32_t length, Part part) {
  for (int i = 0; i < list.count && length > 0; ++i) {
    const ibv_sge& entry = list.entries[i];
    if (offset >= entry.length) {
      offset -= entry.length;
      continue;
    }
    const uint32_t bytes = static_cast<uint32_t>(
        std::min<uint64_t>(entry.length - offset, length));
    if (!part(entry, entry.addr + offset, bytes)) return false;
    length -= bytes;
    offset = 0;
  }
  return length == 0;
}

}  // namespace

bool ScatterGatherList::Allows(unsigned int access) const {
  for (int i = 0; i < count; ++i) {
    const ibv_sge& entry = entries[i];
    // An entry of no bytes needs no valid key.
    if (entry.length > 0 &&
        memory->Translate(entry.lkey, pd, entry.addr, entry.length, access) ==
            nullptr &&
        !AllowsOnDemand(*memory, entry.lkey, pd, entry.addr, entry.length,
                        access)) {
      return false;
    }
  }
  return true;
}

bool ScatterGatherList::GatherParts(uint64_t offset, uint32_t length,
                                    std::byte* destination) const {
  return ForEachPart(
      *this, offset, length,
      [&](const ibv_sge& entry, uint64_t address, uint32_t bytes) {
        const std::byte* from =
            // Reading one's own memory needs no right.
            memory->Translate(entry.lkey, pd, address, bytes, 0);
        if (from != nullptr) {
          CopyBytes(destination, from, bytes);
        } else if (!ReadOnDemand(*memory, entry.lkey, pd, address, bytes, 0,
                                 destination)) {
          return false;
        }
        destination += bytes;
        return true;
      });
}

bool ScatterGatherList::ScatterParts(uint64_t offset, uint32_t length,
                                     const std::byte* source) const {
  return ForEachPart(
      *this, offset, length,
      [&](const ibv_sge& entry, uint64_t address, uint32_t bytes) {
        std::byte* to = memory->Translate(entry.lkey, pd, address, bytes,
                                          IBV_ACCESS_LOCAL_WRITE);
        if (to != nullptr) {
          CopyBytes(to, source, bytes);
        } else if (!WriteOnDemand(*memory, entry.lkey, pd, address, bytes,
                                  IBV_ACCESS_LOCAL_WRITE, source)) {
          return false;
        }
        source += bytes;
        return true;
      });
}

}  // namespace verbena::soft
