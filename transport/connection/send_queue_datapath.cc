#include "transport/base/check.h"
#include "transport/connection/send_queue.h"
#include "transport/verbs/error.h"

namespace verbena::transport {

absl::Status SendQueue::PostFrame(uint32_t bytes, bool signalled) {
  ibv_sge sge;
  sge.addr = reinterpret_cast<uintptr_t>(NextFrame());
  sge.length = bytes;
  sge.lkey = memory_.lkey();
  ibv_send_wr wr = {};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  if (signalled || ++unsignalled_ >= kSignalInterval) {
    wr.send_flags |= IBV_SEND_SIGNALED;
    unsignalled_ = 0;
  }
  if (bytes <= inline_bytes_) wr.send_flags |= IBV_SEND_INLINE;
  ++frames_posted_;
  return Post(&wr, Kind::kFrame, nullptr);
}

absl::Status SendQueue::PostBulk(ibv_wr_opcode opcode, const BulkChunk& chunk,
                                 void* tag) {
  ibv_sge sge;
  sge.addr = reinterpret_cast<uintptr_t>(chunk.local);
  sge.length = chunk.bytes;
  sge.lkey = chunk.lkey;
  ibv_send_wr wr = {};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = chunk.remote;
  wr.wr.rdma.rkey = chunk.rkey;
  unsignalled_ = 0;
  ++bulk_posted_;
  return Post(&wr, Kind::kBulk, tag);
}

absl::Status SendQueue::Post(ibv_send_wr* wr, Kind kind, void* tag) {
  CHECK_LT(posted_ - done_, kRecords);
  wr->wr_id = posted_;
  records_[posted_ % kRecords] = {kind, tag};
  ++posted_;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp_, wr, &bad);
  if (__builtin_expect(error == 0, 1)) return absl::OkStatus();
  // The record stays: the connection is lost, and the drain marker ends it.
  return ErrnoStatus("post_send", "", error);
}

void SendQueue::Complete(uint64_t wr_id,
                         absl::FunctionRef<void(void*)> bulk_done) {
  CHECK(wr_id >= done_ && wr_id < posted_)
      << "completion " << wr_id << " of [" << done_ << ", " << posted_ << ")";
  while (done_ <= wr_id) {
    const Record record = records_[done_ % kRecords];
    ++done_;
    if (record.kind == Kind::kFrame) {
      ++frames_done_;
    } else if (record.kind == Kind::kBulk) {
      ++bulk_done_;
      bulk_done(record.tag);
    }
  }
}

}  // namespace verbena::transport
