// ClientArenas: what the server is told.

#include "transport/client/client_arenas.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "transport/base/status_macros.h"
#include "transport/session/connection.h"
#include "transport/wire/frame.h"

namespace verbena::transport {
namespace {

// After how long without a credit to look for one again. It comes with any
// frame of the server, and a server that has stopped sends none.
constexpr absl::Duration kCreditsAwayRetry = absl::Seconds(1);

}  // namespace

absl::Status ClientArenas::LendThroughWindows(const ProtectionDomain& pd) {
  return windows_.Open(pd);
}

// Takes the arenas' sizes, with rights for this side's device alone.
absl::Status ClientArenas::SealParts(const ProtectionDomain& pd,
                                     const EndpointOptions& options) {
  BufferPool::Options pool;
  pool.access = IBV_ACCESS_LOCAL_WRITE;
  pool.first_region_bytes = kFirstArenaBytes;
  pool.max_bytes = options.max_arena_bytes;
  pool.max_regions = kMaxArenas;
  pool.largest_bytes = std::max(options.max_send_message_bytes,
                                options.max_receive_message_bytes);
  pool.floor_bytes = options.memory_floor_bytes;
  pool.idle_time = options.memory_idle_time;
  ASSIGN_OR_RETURN(private_pool_, BufferPool::Create(pd, pool));
  return absl::OkStatus();
}

Buffer ClientArenas::AllocatePrivate(size_t bytes) {
  if (!seals_parts()) return Buffer::PlainIfAny(bytes);
  absl::StatusOr<Buffer> buffer = private_pool_->Allocate(bytes);
  return buffer.ok() ? *std::move(buffer) : Buffer::PlainIfAny(bytes);
}

// Tells the server of each region that is not in known_. The first one is left
// out, because the private data had it.
bool ClientArenas::AnnounceSlow(Connection& connection) {
  // Others may add to the pool meanwhile: those are for the next time.
  const uint64_t added = pool_.regions_added();
  for (uint32_t index = 1; index < kMaxArenas; ++index) {
    const BufferPool::Region region = pool_.region(index);
    if (region.number == 0 || region.number == known_[index].number) continue;
    uint8_t* const out =
        connection.BeginFrame(sizeof(ArenaHeader), /*spare_credits=*/0);
    // known_ has what the server was told, so the next try goes on from here.
    if (out == nullptr) return false;
    // Before the frame is sent, which may lose the connection.
    known_[index] = region;
    SendArena(connection, out, index, region);
  }
  told_of_ = added;
  return true;
}

// Begins the frame before it takes a region out of the pool, because the server
// must hear of each that it knows.
void ClientArenas::GiveBackIdle(Connection& connection, absl::Time now) {
  if (seals_parts() && private_pool_->FindIdle(now)) private_pool_->TakeIdle();
  if (now < look_again_ || !pool_.FindIdle(now)) return;
  // Nobody waits for this, so it leaves the last credits to others, and asks
  // the server for none.
  uint8_t* const out =
      connection.CanSendIdly()
          ? connection.BeginFrame(sizeof(ArenaHeader), /*spare_credits=*/0)
          : nullptr;
  if (out == nullptr) {
    look_again_ = now + kCreditsAwayRetry;
    return;
  }
  // At most one region a tick, because calls wait meanwhile. The region is
  // deregistered when this function returns, right behind the frame: see
  // frame.h for why the server has nothing under way there.
  const std::optional<BufferPool::TakenRegion> taken = pool_.TakeIdle();
  // An arena that the server was never told of goes without a word. The frame
  // that was begun costs no credit unless it is sent.
  if (!taken.has_value() || known_[taken->index].number != taken->number) {
    return;
  }
  known_[taken->index] = {};
  SendArena(connection, out, taken->index, BufferPool::Region());
}

void ClientArenas::SendArena(Connection& connection, uint8_t* out,
                             uint32_t index, const BufferPool::Region& region) {
  ArenaHeader header = {};
  header.frame = Connection::PlainHeader(FrameType::kArena, 0);
  header.frame.header_bytes = sizeof(header);
  header.address = region.address;
  header.bytes = region.bytes;
  header.rkey = region.rkey;
  header.index = static_cast<uint16_t>(index);
  std::memcpy(out, &header, sizeof(header));
  connection.Send(sizeof(header));
}

}  // namespace verbena::transport
