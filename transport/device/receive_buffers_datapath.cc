#include "absl/base/optimization.h"
#include "transport/device/receive_buffers.h"

namespace verbena::transport {

// Posts all that is pending as one chain. The device may refuse the end of it,
// whose buffers are free then.
absl::Status ReceiveBuffers::Flush() {
  if (pending_count_ == 0) return absl::OkStatus();
  std::array<ibv_recv_wr, kBatch> wrs;
  std::array<ibv_sge, kBatch> sges;
  for (uint32_t i = 0; i < pending_count_; ++i) {
    const uint32_t index = pending_[i];
    sges[i].addr = reinterpret_cast<uintptr_t>(At(index));
    sges[i].length = kBufferBytes;
    sges[i].lkey = slabs_->lkey(index);
    wrs[i].wr_id = kReceiveTag | index;
    wrs[i].next = i + 1 < pending_count_ ? &wrs[i + 1] : nullptr;
    wrs[i].sg_list = &sges[i];
    wrs[i].num_sge = 1;
  }
  ibv_recv_wr* refused = nullptr;
  absl::Status status =
      ABSL_PREDICT_TRUE(qp_ == nullptr)
          ? queue_.PostReceive(wrs.data(), &refused)
          : SharedReceiveQueue::PostReceive(qp_, wrs.data(), &refused);
  if (ABSL_PREDICT_FALSE(!status.ok())) TakeBackSlow(refused - wrs.data());
  pending_count_ = 0;
  return status;
}

}  // namespace verbena::transport
