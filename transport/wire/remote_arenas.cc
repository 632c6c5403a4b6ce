#include "transport/wire/remote_arenas.h"

#include "absl/strings/str_cat.h"
#include "transport/base/status_macros.h"

namespace verbena::transport {

// A client must withdraw an arena before it offers the index again.
absl::Status RemoteArenas::Add(uint16_t index, const ArenaDescriptor& arena) {
  if (index >= kMaxArenas) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the peer offers arena ", index, ", but may have only ", kMaxArenas));
  }
  if (arenas_[index].bytes != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the peer offers arena ", index, " twice"));
  }
  RETURN_IF_ERROR(CheckArena(arena));
  arenas_[index] = arena;
  return absl::OkStatus();
}

// The first arena came with the private data and stays as long as the
// connection.
absl::Status RemoteArenas::Remove(uint16_t index) {
  if (index == 0 || index >= kMaxArenas || arenas_[index].bytes == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the peer withdraws arena ", index,
        index == 0 ? ", the first" : ", which it has not offered"));
  }
  arenas_[index] = {};
  return absl::OkStatus();
}

bool RemoteArenas::Find(uint16_t arena, uint32_t offset, uint64_t bytes,
                        RemoteRange* range) const {
  if (arena >= kMaxArenas || bytes == 0) return false;
  const ArenaDescriptor& found = arenas_[arena];
  // Compared by differences, so hostile numbers cannot wrap around. An arena
  // that was not offered has no bytes, so nothing lies in it.
  if (offset > found.bytes || bytes > found.bytes - offset) return false;
  range->address = found.address + offset;
  range->rkey = found.rkey;
  return true;
}

}  // namespace verbena::transport
