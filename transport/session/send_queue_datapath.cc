#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/base/optimization.h"
#include "transport/base/check.h"
#include "transport/session/send_queue.h"
#include "transport/wire/frame.h"

namespace verbena::transport {

inline ibv_send_wr* SendQueue::Add(const void* local, uint32_t bytes,
                                   uint32_t lkey) {
  CHECK_LT(posted_ - done_, kRecords);
  // A train ends when anything else is posted: it must be the last work request
  // of the batch.
  train_.wr = nullptr;
  ibv_send_wr* const wr = batch_->Add();
  wr->wr_id = posted_;
  wr->sg_list->addr = reinterpret_cast<uintptr_t>(local);
  wr->sg_list->length = bytes;
  wr->sg_list->lkey = lkey;
  return wr;
}

inline ibv_send_wr* SendQueue::AddOther(ibv_wr_opcode opcode,
                                        const Record& record,
                                        unsigned int flags) {
  if (posted_ - done_ >= kOwnSends) TakeShared();
  if (batch_ == nullptr) batch_ = batches_.Acquire();
  ibv_send_wr* const wr = Add(nullptr, 0, 0);
  records_[posted_ % kRecords] = record;
  wr->num_sge = 0;
  wr->opcode = opcode;
  wr->send_flags = flags;
  return wr;
}

inline int SendQueue::Count(unsigned int flags) {
  unsignalled_ = (flags & IBV_SEND_SIGNALED) != 0 ? 0 : unsignalled_ + 1;
  ++posted_;
  return ABSL_PREDICT_FALSE(batch_->full()) ? Flush() : 0;
}

// Chooses inline or not by the length that was written, which may be less than
// BeginFrame() was asked for. The record tells Complete() which buffer the
// frame holds.
int SendQueue::PostFrame(uint32_t bytes, bool signalled, uint32_t invalidates) {
  CHECK(frame_ != nullptr);
  if (posted_ - done_ >= kOwnSends) TakeShared();
  const bool held = frame_buffer_ != SendBuffers::kNone;
  ibv_send_wr* const wr =
      Add(frame_, bytes, held ? buffers_.lkey(frame_buffer_) : 0);
  Record& record = records_[posted_ % kRecords];
  record.kind = Kind::kFrame;
  record.buffer = frame_buffer_;
  if (ABSL_PREDICT_FALSE(sealer_ != nullptr)) {
    record.first_chunk = std::exchange(first_chunk_, 0);
  }
  unsigned int flags = bytes <= inline_bytes_ ? IBV_SEND_INLINE : 0;
  // Where buffers are scarce, each is to come back whatever follows. Asked
  // last, because that may register memory.
  if (signalled || unsignalled_ + 1 >= signal_interval_ ||
      (held && buffers_.Scarce())) {
    flags |= IBV_SEND_SIGNALED;
  }
  wr->num_sge = 1;
  wr->opcode = IBV_WR_SEND;
  wr->send_flags = flags;
  if (ABSL_PREDICT_FALSE(invalidates != 0)) {
    wr->opcode = IBV_WR_SEND_WITH_INV;
    wr->invalidate_rkey = invalidates;
  }
  // The record has the buffer from now on, until a completion.
  if (held) spare_buffer_ = SendBuffers::kNone;
  frame_ = nullptr;
  ++frames_.posted;
  return Count(flags);
}

// A train begins where its first frame was written, in scratch memory of the
// batch if that was short, and moves to a buffer when it does not fit there any
// more. So a frame that remains alone is sent as if there were no trains.
uint8_t* SendQueue::BeginInTrain(uint32_t bytes, uint32_t room) {
  const uint32_t start =
      (train_.bytes + kTrainAlignment - 1) & ~(kTrainAlignment - 1);
  if (start + bytes > room) return nullptr;
  const bool inlined = (train_.wr->send_flags & IBV_SEND_INLINE) != 0;
  if (inlined && start + bytes > inline_bytes_ && !MoveTrainToBuffer()) {
    return nullptr;
  }
  uint8_t* const train = reinterpret_cast<uint8_t*>(train_.wr->sg_list->addr);
  std::memset(train + train_.bytes, 0, start - train_.bytes);
  train_.begun = train + start;
  return train_.begun;
}

bool SendQueue::MoveTrainToBuffer() {
  if (!HaveSpareBuffer()) return false;
  const uint32_t buffer = std::exchange(spare_buffer_, SendBuffers::kNone);
  std::memcpy(buffers_.At(buffer),
              reinterpret_cast<const void*>(train_.wr->sg_list->addr),
              train_.bytes);
  train_.wr->sg_list->addr = reinterpret_cast<uintptr_t>(buffers_.At(buffer));
  train_.wr->sg_list->lkey = buffers_.lkey(buffer);
  train_.wr->send_flags &= ~unsigned{IBV_SEND_INLINE};
  // The train was counted with its first frame, so its record is the last.
  records_[(posted_ - 1) % kRecords].buffer = buffer;
  // As in PostFrame().
  if (buffers_.Scarce()) {
    train_.wr->send_flags |= IBV_SEND_SIGNALED;
    unsignalled_ = 0;
  }
  return true;
}

int SendQueue::PostInTrain(uint32_t bytes) {
  const auto* const train =
      reinterpret_cast<const uint8_t*>(train_.wr->sg_list->addr);
  train_.bytes = static_cast<uint32_t>(train_.begun - train) + bytes;
  train_.wr->sg_list->length = train_.bytes;
  train_.begun = nullptr;
  // A full train goes at once, so that no more calls wait for its doorbell.
  return ++train_.frames == kTrainFrames ? Flush() : 0;
}

// Counts the binding as a frame, which is signalled as seldom: nothing waits
// for its own completion.
int SendQueue::PostBind(ibv_mw* window, uint32_t rkey,
                        const ibv_mw_bind_info& part) {
  const unsigned int flags =
      unsignalled_ + 1 >= signal_interval_ ? IBV_SEND_SIGNALED : 0;
  ibv_send_wr* const wr = AddOther(
      IBV_WR_BIND_MW, {nullptr, SendBuffers::kNone, Kind::kFrame}, flags);
  wr->imm_data = 0;  // rdma_rxe refuses what an earlier request has left here.
  wr->bind_mw.mw = window;
  wr->bind_mw.rkey = rkey;
  wr->bind_mw.bind_info = part;
  ++frames_.posted;
  return Count(flags);
}

int SendQueue::PostBulk(ibv_wr_opcode opcode, const BulkChunk& chunk,
                        void* tag) {
  ibv_send_wr* const wr = AddOther(
      opcode, {tag, SendBuffers::kNone, Kind::kBulk}, IBV_SEND_SIGNALED);
  *wr->sg_list = {reinterpret_cast<uintptr_t>(chunk.local), chunk.bytes,
                  chunk.lkey};
  wr->num_sge = 1;
  wr->wr.rdma.remote_addr = chunk.remote;
  wr->wr.rdma.rkey = chunk.rkey;
  ++bulk_.posted;
  return Count(IBV_SEND_SIGNALED);
}

// Signalled, because the tag says when the memory may be used again.
int SendQueue::PostInvalidate(uint32_t rkey, void* tag) {
  AddOther(IBV_WR_LOCAL_INV, {tag, SendBuffers::kNone, Kind::kBulk},
           IBV_SEND_SIGNALED)
      ->invalidate_rkey = rkey;
  ++bulk_.posted;
  return Count(IBV_SEND_SIGNALED);
}

int SendQueue::PostEmptyWrite() {
  AddOther(IBV_WR_RDMA_WRITE, {nullptr, SendBuffers::kNone, Kind::kBulk},
           IBV_SEND_SIGNALED)
      ->wr.rdma = {};
  ++bulk_.posted;
  return Count(IBV_SEND_SIGNALED);
}

bool SendQueue::PostDrainMarker() {
  if (batch_ == nullptr) batch_ = batches_.Acquire();
  // The marker has room of its own, beyond the shared work requests.
  ibv_send_wr* const wr = Add(nullptr, 0, 0);
  // The queue pair is in the error state, so the empty SEND never reaches
  // the peer.
  records_[posted_ % kRecords].kind = Kind::kMarker;
  wr->num_sge = 0;
  wr->opcode = IBV_WR_SEND;
  wr->send_flags = IBV_SEND_SIGNALED;
  return Count(IBV_SEND_SIGNALED) == 0 && Flush() == 0;
}

int SendQueue::Flush() {
  if (batch_ == nullptr) return 0;
  if (ABSL_PREDICT_FALSE(sealer_ != nullptr)) SealBatch();
  SendBatch* const batch = std::exchange(batch_, nullptr);
  // They may stand in the batch.
  frame_ = train_.begun = nullptr;
  train_.wr = nullptr;
  // After an error the records stay: the connection is lost, and the drain
  // marker ends them.
  const int error = batch->empty() ? 0 : batch->Post(qp_);
  batches_.Release(batch);
  return error;
}

// Goes from the oldest request to the one that completed, because frames before
// that have completed silently. A READ or WRITE in between ends the walk until
// it completes itself.
bool SendQueue::Complete(uint64_t wr_id,
                         absl::FunctionRef<void(void*)> bulk_done) {
  if (ABSL_PREDICT_FALSE(wr_id < done_ || wr_id >= posted_)) return false;
  uint64_t last = wr_id;
  while (done_ <= last) {
    const Record& record = records_[done_ % kRecords];
    // Only its own completion says that a READ is done, or a marker's.
    if (ABSL_PREDICT_FALSE(record.kind == Kind::kBulk) && done_ != wr_id &&
        records_[wr_id % kRecords].kind != Kind::kMarker) {
      NoteOvertaking(wr_id);
      return true;
    }
    // Before bulk_done(), which may post something else into this room.
    ++done_;
    if (shared_held_ > 0 && posted_ - done_ < kOwnSends + shared_held_) {
      shared_.Release();
      --shared_held_;
    }
    if (ABSL_PREDICT_TRUE(record.kind == Kind::kFrame)) {
      ++frames_.done;
      if (record.buffer != SendBuffers::kNone) {
        buffers_.Release(record.buffer);
        --buffers_held_;
      }
    } else if (record.kind != Kind::kMarker) {
      ++bulk_.done;
      // Requests that have overtaken it were waiting for this.
      last = std::max(last, overtaking_);
      bulk_done(record.tag);
    }
  }
  return true;
}

void SendQueue::NoteOvertaking(uint64_t wr_id) {
  overtaking_ = std::max(overtaking_, wr_id);
  Record& record = records_[wr_id % kRecords];
  if (record.kind == Kind::kBulk) record.kind = Kind::kDoneBulk;
}

}  // namespace verbena::transport
