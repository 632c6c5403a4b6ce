// SendQueue: frames that are sealed.

#include <algorithm>
#include <cstring>

#include "transport/session/send_queue.h"
#include "transport/wire/frame.h"

namespace verbena::transport {

int SendQueue::BeginSealing(Sealer* sealer) {
  const int error = Flush();
  sealer_ = sealer;
  // Room for what comes behind each frame.
  inline_bytes_ -= std::min(inline_bytes_, kSealedFrameBytes);
  return error;
}

// A SEND is sealed when it is complete: with all frames of a train, and the
// number of its parts' first chunk behind them. Each buffer has room for that.
void SendQueue::SealBatch() {
  for (ibv_send_wr& wr : batch_->requests()) {
    if (wr.num_sge == 0 ||
        (wr.opcode != IBV_WR_SEND && wr.opcode != IBV_WR_SEND_WITH_INV)) {
      continue;
    }
    ibv_sge& element = *wr.sg_list;
    uint8_t* const frame = reinterpret_cast<uint8_t*>(element.addr);
    const uint64_t first_chunk = records_[wr.wr_id % kRecords].first_chunk;
    std::memcpy(frame + element.length, &first_chunk, sizeof(first_chunk));
    element.length += static_cast<uint32_t>(sizeof(first_chunk));
    sealer_->SealFrame(sealed_++, {frame, element.length});
    element.length += kSealTagBytes;
  }
}

}  // namespace verbena::transport
