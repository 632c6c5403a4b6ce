#include <utility>

#include "transport/base/check.h"
#include "transport/connection/send_queue.h"
#include "transport/verbs/error.h"

namespace verbena::transport {

ibv_send_wr* SendQueue::Add(Kind kind, ibv_wr_opcode opcode, const void* local,
                            uint32_t bytes, uint32_t lkey) {
  CHECK_LT(posted_ - done_, kRecords);
  // The marker has a place of its own.
  if (posted_ - done_ >= kOwnSends && kind != Kind::kMarker) TakeShared();
  if (batch_ == nullptr) batch_ = batches_.Acquire();
  ibv_send_wr* const wr = batch_->Add();
  wr->wr_id = posted_;
  wr->num_sge = 1;
  wr->opcode = opcode;
  wr->sg_list->addr = reinterpret_cast<uintptr_t>(local);
  wr->sg_list->length = bytes;
  wr->sg_list->lkey = lkey;
  records_[posted_ % kRecords].kind = kind;
  ++posted_;
  return wr;
}

absl::Status SendQueue::PostFrame(uint32_t bytes, bool signalled) {
  CHECK(frame_ != nullptr);
  const bool held = frame_slot_ != SendSlots::kNone;
  ibv_send_wr* const wr = Add(Kind::kFrame, IBV_WR_SEND, frame_, bytes,
                              held ? slots_.lkey(frame_slot_) : 0);
  last_record().slot = frame_slot_;
  wr->send_flags = bytes <= inline_bytes_ ? IBV_SEND_INLINE : 0;
  // One that holds a slot gives it back soon, whatever follows.
  if (signalled || held || ++unsignalled_ >= kSignalInterval) {
    wr->send_flags |= IBV_SEND_SIGNALED;
    unsignalled_ = 0;
  }
  if (held) spare_slot_ = SendSlots::kNone;
  frame_ = nullptr;
  ++frames_posted_;
  return FlushIfFull();
}

absl::Status SendQueue::PostBulk(ibv_wr_opcode opcode, const BulkChunk& chunk,
                                 void* tag) {
  ibv_send_wr* const wr =
      Add(Kind::kBulk, opcode, chunk.local, chunk.bytes, chunk.lkey);
  last_record().tag = tag;
  wr->send_flags = IBV_SEND_SIGNALED;
  wr->wr.rdma.remote_addr = chunk.remote;
  wr->wr.rdma.rkey = chunk.rkey;
  unsignalled_ = 0;
  ++bulk_posted_;
  return FlushIfFull();
}

absl::Status SendQueue::FlushIfFull() {
  return batch_->full() ? Flush() : absl::OkStatus();
}

absl::Status SendQueue::Flush() {
  if (batch_ == nullptr) return absl::OkStatus();
  SendBatch* const batch = std::exchange(batch_, nullptr);
  frame_ = nullptr;  // It may stand in the batch.
  const int error = batch->empty() ? 0 : batch->Post(qp_);
  batches_.Release(batch);
  if (__builtin_expect(error == 0, 1)) return absl::OkStatus();
  // The records stay: the connection is lost, and the drain marker ends them.
  return ErrnoStatus("post_send", "", error);
}

void SendQueue::Complete(uint64_t wr_id,
                         absl::FunctionRef<void(void*)> bulk_done) {
  CHECK(wr_id >= done_ && wr_id < posted_)
      << "completion " << wr_id << " of [" << done_ << ", " << posted_ << ")";
  while (done_ <= wr_id) {
    const Record& record = records_[done_ % kRecords];
    ++done_;
    if (shared_held_ > 0 && posted_ - done_ < kOwnSends + shared_held_) {
      shared_.Release();
      --shared_held_;
    }
    if (record.kind == Kind::kFrame) {
      ++frames_done_;
      if (record.slot != SendSlots::kNone) slots_.Release(record.slot);
    } else if (record.kind == Kind::kBulk) {
      ++bulk_done_;
      bulk_done(record.tag);
    }
  }
}

}  // namespace verbena::transport
