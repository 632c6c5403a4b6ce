#include "tests/fuzz/session_memory.h"

#include <algorithm>
#include <cstring>

#include "tests/fuzz/session_frames.h"
#include "transport/wire/frame.h"

namespace verbena::transport {

absl::Status SessionMemory::Note(const std::string& frame) {
  const FrameHeader common = HeaderOf<FrameHeader>(frame);
  switch (common.type) {
    case FrameType::kRequest: {
      if ((common.flags & kFlagReplyLease) == 0) return absl::OkStatus();
      const auto request = HeaderOf<RequestHeader>(frame);
      return Lend(common.call_id, request.reply_arena, request.reply_offset,
                  request.reply_bytes, LeaseKeyOf(frame));
    }
    case FrameType::kLease: {
      const auto lease = HeaderOf<LeaseHeader>(frame);
      // A LEASE of no bytes says that the client has no lease for a stream.
      if (lease.bytes == 0) return absl::OkStatus();
      return Lend(common.call_id, lease.arena, lease.offset, lease.bytes,
                  lease.rkey);
    }
    case FrameType::kArena: {
      const auto arena = HeaderOf<ArenaHeader>(frame);
      return arena.bytes == 0
                 ? arenas_.Remove(arena.index)
                 : arenas_.Add(arena.index,
                               {arena.address, arena.bytes, arena.rkey});
    }
    default:
      return absl::OkStatus();
  }
}

absl::Status SessionMemory::Lend(uint32_t call_id, uint16_t arena,
                                 uint32_t offset, uint32_t bytes,
                                 uint32_t rkey) {
  RemoteArenas::RemoteRange range;
  if (!arenas_.Find(arena, offset, bytes, &range)) {
    return absl::InvalidArgumentError("a loan outside the arenas");
  }
  const bool has_key = rkey != 0;
  loans_.push_back(
      {call_id, range.address, bytes, has_key ? rkey : range.rkey, has_key});
  return absl::OkStatus();
}

Loan* SessionMemory::FindOpen(uint32_t call_id) {
  const auto found =
      std::find_if(loans_.rbegin(), loans_.rend(), [call_id](const Loan& loan) {
        return loan.open && loan.call_id == call_id;
      });
  return found == loans_.rend() ? nullptr : &*found;
}

}  // namespace verbena::transport
