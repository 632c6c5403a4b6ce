// A connection's share of its poller's bulk memory.

#ifndef VERBENA_TRANSPORT_SERVER_BULK_SHARE_H_
#define VERBENA_TRANSPORT_SERVER_BULK_SHARE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/base/buffer.h"
#include "transport/memory/buffer_pool.h"
#include "transport/memory/pool_account.h"

namespace verbena::transport {

// Allocates registered memory for large requests and replies, as long as the
// connection keeps within its share (PoolAccount). Poller thread only, but for
// Allocate().
class BulkShare {
 public:
  // No allocation of more than `max_bytes` will ever succeed. The pool must
  // outlive it.
  BulkShare(BufferPool& pool, uint64_t max_bytes)
      : pool_(pool), max_bytes_(max_bytes), account_(pool.OpenAccount()) {}
  BulkShare(const BulkShare&) = delete;
  BulkShare& operator=(const BulkShare&) = delete;

  // UNAVAILABLE if there is no memory just now, or the connection has its
  // share. Any thread.
  absl::StatusOr<Buffer> Allocate(size_t bytes) const;
  // As Allocate(), but empty if there is none, also for 0 bytes.
  Buffer AllocateOrNone(size_t bytes) const;

  // Allocates memory for both parts of a request or a reply, either of which
  // may have 0 bytes, or nothing.
  absl::Status AllocateParts(uint64_t message_bytes, uint64_t attachment_bytes,
                             Buffer* message, Buffer* attachment);

  // Whether memory was short since the last call.
  bool TakeShortage();
  // Moves `buffer` to memory that is not the pool's. False if there is none.
  bool MoveOut(Buffer* buffer) const;

 private:
  absl::Status AllocateApart(uint64_t message_bytes, uint64_t attachment_bytes,
                             Buffer* message, Buffer* attachment);

  BufferPool& pool_;
  const uint64_t max_bytes_;
  // The connection's blocks of the pool, in its calls and with its handlers.
  const PoolAccount::Owner account_;
  uint64_t seen_shortages_ = 0;  // The pool's, at the last TakeShortage().
  bool over_share_ = false;      // Memory was refused because of the share.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SERVER_BULK_SHARE_H_
