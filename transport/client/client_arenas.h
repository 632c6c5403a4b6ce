// A client's arenas: the memory that its server may READ and WRITE.

#ifndef VERBENA_TRANSPORT_CLIENT_CLIENT_ARENAS_H_
#define VERBENA_TRANSPORT_CLIENT_CLIENT_ARENAS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/limits.h"
#include "transport/client/call_memory.h"
#include "transport/client/client_call.h"
#include "transport/client/lease_windows.h"
#include "transport/memory/buffer_pool.h"
#include "transport/wire/placement.h"

namespace verbena::transport {

class Connection;

// Gives calls memory of a pool, which is the arenas of this
// connection alone, and tells the server of arenas when the pool grows and when
// it shrinks. Lends it for replies through windows, if it was told to: then the
// arenas' own keys allow no writing. Confined to the poller's thread, and
// destroyed after the queue pair.
class ClientArenas {
 public:
  ClientArenas(BufferPool& pool, uint64_t max_reply_bytes)
      : pool_(pool),
        max_reply_bytes_(max_reply_bytes),
        known_({pool.region(0)}) {}

  BufferPool& pool() { return pool_; }

  // The parts of calls are sealed from now on: no others lie in the arenas.
  // Fails as BufferPool::Create().
  absl::Status SealParts(const ProtectionDomain& pd,
                         const EndpointOptions& options);
  bool seals_parts() const { return private_pool_ != nullptr; }
  // Memory for bytes that go out or came in: where others may read them if that
  // does no harm.
  Buffer AllocateOwn(size_t bytes) { return own_pool().AllocateOrPlain(bytes); }
  // A source of it.
  BufferSource own_source() { return own_pool().source(); }
  // Memory that the server can neither read nor write; empty if there is none.
  Buffer AllocatePrivate(size_t bytes);

  // Leases have windows from now on; fails as LeaseWindows::Open().
  absl::Status LendThroughWindows(const ProtectionDomain& pd);
  bool lends_through_windows() const { return windows_.open(); }
  LeaseWindows& windows() { return windows_; }

  // Gets what a call needs into `memory`: for those parts of the request that
  // `placement` does not put into the frame, and a lease for the reply that it
  // hints at. If it returns false, `memory` may hold a part, and `failure` says
  // why: OK if a LEASE goes first, UNAVAILABLE if there will be memory when
  // Buffers come back, else there will never be.
  bool Allocate(const ClientCall::Request& request, Placement placement,
                CallMemory* memory, absl::Status* failure);

  // Gets a lease of at least `bytes` into `memory`. If it returns false,
  // `failure` says why, in the same way.
  bool AllocateLease(uint64_t bytes, CallMemory* memory, absl::Status* failure);

  // Binds a window to the lease in `memory`, ahead of the frame that tells the
  // server. False if there is no window or no room to post that. REQUIRES: the
  // server knows the arena.
  bool Lend(Connection& connection, CallMemory* memory);
  // Takes a lease back that the server may still write to, and has written
  // nothing to that is wanted.
  void TakeBack(Connection& connection, CallMemory* memory);
  // The device has taken one back: the tag of its completion.
  void OnTakenBack(void* tag);
  // Has the device take back as many as there is room for. The others are due.
  void PostTakeBacks(Connection& connection);
  bool take_backs_due() const { return !to_take_back_.empty(); }
  // Gives back all that a call holds. REQUIRES: its lease is not bound, or the
  // connection is being lost.
  void Free(Poller& poller, CallMemory* memory);

  // Requests leave what memory there is to a LEASE that waits for some, because
  // the server has memory and work in that reply.
  void set_lease_waits(bool waits) { lease_waits_ = waits; }
  bool lease_waits() const { return lease_waits_; }

  // Tells the server of arenas that it does not know. False if that must wait
  // for credits.
  bool Announce(Connection& connection) {
    return pool_.regions_added() == told_of_ || AnnounceSlow(connection);
  }

  // Gives back an arena that was not used for a while, if there is a credit to
  // tell the server.
  void GiveBackIdle(Connection& connection, absl::Time now);
  // When that is to be called again.
  absl::Time NextLook() const {
    const absl::Time look = std::max(pool_.NextLook(), look_again_);
    return seals_parts() ? std::min(look, private_pool_->NextLook()) : look;
  }

 private:
  BufferPool& own_pool() { return seals_parts() ? *private_pool_ : pool_; }
  // Gets memory for a message that will be sealed.
  bool AllocatePlain(uint64_t bytes, CallMemory* memory, absl::Status* failure);
  bool AnnounceSlow(Connection& connection);
  // Says in a frame that was begun at `out` what the arena `index` is from now
  // on.
  static void SendArena(Connection& connection, uint8_t* out, uint32_t index,
                        const BufferPool::Region& region);

  BufferPool& pool_;
  const uint64_t max_reply_bytes_;  // The longest reply that is accepted.
  LeaseWindows windows_;
  std::vector<LeaseWindow*> to_take_back_;
  // The arena that the server knows by this index; number 0 if none. The first
  // one came with the private data.
  std::array<BufferPool::Region, kMaxArenas> known_;
  uint64_t told_of_ = 1;  // All arenas up to this number.
  // When to look for idle arenas at the earliest.
  absl::Time look_again_ = absl::InfinitePast();
  bool lease_waits_ = false;
  // Memory that no peer has a key for; null unless parts are sealed.
  std::unique_ptr<BufferPool> private_pool_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CLIENT_CLIENT_ARENAS_H_
