#include <array>

#include "transport/connection/poller_device.h"

namespace verbena::transport {

int PollerDevice::Poll() {
  std::array<ibv_wc, ReceiveSlots::kBatch> completions;
  const int count = cq_.Poll(absl::MakeSpan(completions));
  // A failed queue never completes anything again; keepalive and the
  // connection manager end its connections.
  if (count <= 0) return 0;
  for (int i = 0; i < count; ++i) Handle(completions[i]);
  if (!slots_.Flush().ok()) FailAll();
  return count;
}

void PollerDevice::Handle(const ibv_wc& completion) {
  const bool receive = (completion.wr_id & ReceiveSlots::kReceiveTag) != 0;
  const uint32_t slot = static_cast<uint32_t>(completion.wr_id);
  const auto found = handlers_.find(completion.qp_num);
  if (found != handlers_.end()) {
    CompletionHandler* handler = found->second;
    if (!receive) {
      handler->OnSendDone(completion.wr_id, completion.status);
    } else if (completion.status == IBV_WC_SUCCESS) {
      handler->OnReceive({slots_.Slot(slot), completion.byte_len});
    } else {
      handler->OnReceiveError(completion.status);
    }
  }
  // A handler that is gone left its receives: they serve the others.
  if (receive && !slots_.Repost(slot).ok()) FailAll();
}

}  // namespace verbena::transport
