#include "transport/wire/remote_arenas.h"

#include "absl/strings/str_cat.h"
#include "transport/base/status_macros.h"

namespace verbena::transport {

absl::Status RemoteArenas::Add(uint16_t index, const ArenaDescriptor& arena) {
  if (arenas_.size() == kMaxArenas) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the peer offers arena ", index, ", but has ", kMaxArenas, " already"));
  }
  if (index != arenas_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the peer offers arena ", index, " when number ",
                     arenas_.size(), " is the next"));
  }
  RETURN_IF_ERROR(CheckArena(arena));
  arenas_.push_back(arena);
  return absl::OkStatus();
}

bool RemoteArenas::Find(uint16_t arena, uint32_t offset, uint64_t bytes,
                        RemoteRange* range) const {
  if (arena >= arenas_.size() || bytes == 0) return false;
  const ArenaDescriptor& found = arenas_[arena];
  if (offset > found.bytes || bytes > found.bytes - offset) return false;
  range->address = found.address + offset;
  range->rkey = found.rkey;
  return true;
}

}  // namespace verbena::transport
