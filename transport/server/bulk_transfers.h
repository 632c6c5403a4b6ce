// The READs and WRITEs of one connection, in fair turns.

#ifndef VERBENA_TRANSPORT_SERVER_BULK_TRANSFERS_H_
#define VERBENA_TRANSPORT_SERVER_BULK_TRANSFERS_H_

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "transport/base/intrusive_list.h"
#include "transport/base/limits.h"
#include "transport/memory/buffer_pool.h"
#include "transport/polling/poller.h"
#include "transport/session/send_queue.h"
#include "transport/verbs/memory_region.h"
#include "transport/verbs/protection_domain.h"
#include "transport/wire/remote_arenas.h"
#include "transport/wire/sealed_part.h"

namespace verbena::transport {

// A READ or WRITE of any length, cut into chunks.
struct BulkTransfer : base::ListLink<BulkTransfer> {
  ibv_wr_opcode opcode = IBV_WR_RDMA_READ;
  uint8_t* local = nullptr;
  uint32_t lkey = 0;
  RemoteArenas::RemoteRange remote;
  uint32_t bytes = 0;
  void* owner = nullptr;  // For whoever started it; may be set to null.
  // The owner has it for a long message of its stream; one that is READ has
  // that number.
  bool of_stream = false;
  uint64_t number = 0;
  Buffer hold;  // Memory that must stay until the last chunk is done.
  // If not null, becomes the CRC32C of it all, chunk by chunk: before one is
  // WRITTEN, and after one was READ.
  uint32_t* sum = nullptr;
  // Seals a part before it is WRITTEN, or opens one that was READ, chunk by
  // chunk; `plain` has the bytes to seal until then. The part begins at
  // `sealed_at`, and `*opens` becomes false if it does not open.
  PartSeal seal;
  Buffer plain;
  uint32_t sealed_at = 0;
  bool* opens = nullptr;

  MemoryRegion sink;  // See BulkTransfers::RegisterSinks().
  uint32_t posted_bytes = 0;
  uint32_t done_bytes = 0;
};

// Posts chunks of all transfers in turn, as far as the send queue has room and
// never more than kBulkWindowBytes, so a large call holds up no other, nor a
// frame that is posted behind it. Transfers are recycled: nothing is allocated
// once there have been as many at once as there ever will be.
//
// Not thread-safe: confined to the poller's thread. Destroyed after the queue
// pair.
class BulkTransfers {
 public:
  // The poller must outlive it; it hears how much is on its way.
  explicit BulkTransfers(Poller& poller) : poller_(poller) {}
  BulkTransfers(const BulkTransfers&) = delete;
  BulkTransfers& operator=(const BulkTransfers&) = delete;
  ~BulkTransfers() { poller_.NoteTransfer(-started_bytes_); }

  // For devices of iWARP, where a READ arrives as a write of the peer's: what
  // is READ is registered in `pd`, which outlives this, with a key of its own
  // that allows remote writes, from the first chunk to the last. The memory's
  // own key allows none.
  void RegisterSinks(const ProtectionDomain& pd) { sinks_ = &pd; }

  // Returns a transfer to fill in; then Start() it.
  BulkTransfer* Acquire();
  // As Acquire(), for all of `local`, filled in but for what is optional.
  BulkTransfer* Prepare(ibv_wr_opcode opcode, const Buffer& local,
                        const RemoteArenas::RemoteRange& remote, void* owner);
  void Start(BulkTransfer* transfer);

  // Whether a transfer has chunks that are not posted.
  bool waiting() const { return !round_.empty(); }

  // Posts what fits. Calls `posted(transfer)` for each whose last chunk is out.
  // Returns 0, or the errno of the device, after which the connection is lost.
  template <typename Posted>
  int PostChunks(SendQueue& queue, Posted posted) {
    while (!round_.empty() && queue.HasBulkRoom() &&
           bytes_in_flight_ + NextBytes(*round_.front()) <= kBulkWindowBytes) {
      BulkTransfer* const transfer = round_.PopFront();
      if (const int error = PostChunk(queue, transfer); error != 0) {
        return error;
      }
      if (transfer->posted_bytes < transfer->bytes) {
        round_.PushBack(transfer);
      } else {
        posted(transfer);
      }
    }
    return 0;
  }

  // A chunk of `transfer`, the tag of its completion, is done. Returns whether
  // it was the last; the caller then calls Release().
  bool ChunkDone(BulkTransfer* transfer);
  void Release(BulkTransfer* transfer);

 private:
  int PostChunk(SendQueue& queue, BulkTransfer* transfer);
  absl::Status RegisterSink(BulkTransfer* transfer) const;

  // Returns the length of the chunk that begins at `start`. A chunk that is
  // READ ends where one does that was sealed.
  static uint32_t ChunkBytes(const BulkTransfer& transfer, uint32_t start) {
    uint32_t chunk = kBulkChunkBytes;
    if (transfer.seal.active()) {
      chunk = kSealChunkBytes + (start == 0 ? transfer.sealed_at : 0);
    }
    return std::min(chunk, transfer.bytes - start);
  }
  static uint32_t NextBytes(const BulkTransfer& transfer) {
    return ChunkBytes(transfer, transfer.posted_bytes);
  }

  Poller& poller_;
  int64_t started_bytes_ = 0;  // Sum of all transfers that have not ended.
  const ProtectionDomain* sinks_ = nullptr;
  std::vector<std::unique_ptr<BulkTransfer>> all_;
  base::IntrusiveList<BulkTransfer> spare_;
  base::IntrusiveList<BulkTransfer> round_;  // They have chunks to post.
  uint32_t bytes_in_flight_ = 0;             // Summed over all transfers.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SERVER_BULK_TRANSFERS_H_
