#include "transport/server/bulk_transfers.h"

#include <algorithm>
#include <cerrno>
#include <memory>

#include "transport/base/check.h"
#include "transport/base/limits.h"
#include "transport/base/status_macros.h"
#include "transport/wire/checksum.h"

namespace verbena::transport {

namespace {

void AddToSum(BulkTransfer* transfer, uint32_t start, uint32_t bytes) {
  if (transfer->sum == nullptr) return;
  *transfer->sum = Crc32c({transfer->local + start, bytes}, *transfer->sum);
}

}  // namespace

BulkTransfer* BulkTransfers::Acquire() {
  BulkTransfer* const transfer = spare_.PopFront();
  if (transfer == nullptr) {
    all_.push_back(std::make_unique<BulkTransfer>());
    return all_.back().get();
  }
  std::destroy_at(transfer);
  return std::construct_at(transfer);
}

BulkTransfer* BulkTransfers::Prepare(ibv_wr_opcode opcode, const Buffer& local,
                                     const RemoteArenas::RemoteRange& remote,
                                     void* owner) {
  BulkTransfer* const transfer = Acquire();
  transfer->opcode = opcode;
  transfer->local = local.data();
  transfer->lkey = local.lkey();
  transfer->remote = remote;
  transfer->bytes = static_cast<uint32_t>(local.size());
  transfer->owner = owner;
  return transfer;
}

void BulkTransfers::Start(BulkTransfer* transfer) {
  CHECK_GT(transfer->bytes, 0u);
  started_bytes_ += transfer->bytes;
  // The owner spins longer meanwhile, because nothing completes in the middle
  // of a part.
  poller_.NoteTransfer(transfer->bytes);
  round_.PushBack(transfer);
}

absl::Status BulkTransfers::RegisterSink(BulkTransfer* transfer) const {
  ASSIGN_OR_RETURN(
      transfer->sink,
      MemoryRegion::Create(*sinks_, {transfer->local, transfer->bytes},
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
  transfer->lkey = transfer->sink.lkey();
  return absl::OkStatus();
}

// Posts the next chunk. Sums are computed and parts sealed chunk by chunk, so
// that the poller is busy with one for no longer than a chunk takes.
int BulkTransfers::PostChunk(SendQueue& queue, BulkTransfer* transfer) {
  // The key allows remote writes, so it exists only from the first chunk to
  // the last.
  if (sinks_ != nullptr && transfer->opcode == IBV_WR_RDMA_READ &&
      transfer->sink.get() == nullptr && !RegisterSink(transfer).ok()) {
    return ENOMEM;  // As a device that takes no more.
  }
  BulkChunk chunk;
  chunk.local = transfer->local + transfer->posted_bytes;
  chunk.lkey = transfer->lkey;
  chunk.bytes = NextBytes(*transfer);
  if (transfer->opcode == IBV_WR_RDMA_WRITE) {
    AddToSum(transfer, transfer->posted_bytes, chunk.bytes);
    transfer->seal.SealTo(transfer->posted_bytes + chunk.bytes);
  }
  chunk.remote = transfer->remote.address + transfer->posted_bytes;
  chunk.rkey = transfer->remote.rkey;
  transfer->posted_bytes += chunk.bytes;
  bytes_in_flight_ += chunk.bytes;
  return queue.PostBulk(transfer->opcode, chunk, transfer);
}

bool BulkTransfers::ChunkDone(BulkTransfer* transfer) {
  // They end in the order posted.
  const uint32_t bytes = ChunkBytes(*transfer, transfer->done_bytes);
  if (transfer->opcode == IBV_WR_RDMA_READ) {
    AddToSum(transfer, transfer->done_bytes, bytes);
  }
  transfer->done_bytes += bytes;
  if (transfer->opens != nullptr &&
      !transfer->seal.OpenTo(transfer->done_bytes - transfer->sealed_at)) {
    *transfer->opens = false;
  }
  bytes_in_flight_ -= bytes;
  // Before anybody looks at the bytes, the peer can write there no more.
  if (transfer->done_bytes == transfer->bytes) transfer->sink = MemoryRegion();
  return transfer->done_bytes == transfer->bytes;
}

void BulkTransfers::Release(BulkTransfer* transfer) {
  CHECK_EQ(transfer->done_bytes, transfer->posted_bytes);
  started_bytes_ -= transfer->bytes;
  poller_.NoteTransfer(-int64_t{transfer->bytes});
  transfer->sink = MemoryRegion();
  transfer->hold.Reset();
  transfer->plain.Reset();
  spare_.PushFront(transfer);
}

}  // namespace verbena::transport
