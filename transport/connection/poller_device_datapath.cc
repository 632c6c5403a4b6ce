#include <algorithm>
#include <array>

#include "transport/connection/poller_device.h"

namespace verbena::transport {

int PollerDevice::Poll() {
  std::array<ibv_wc, ReceiveSlots::kPollBatch> completions;
  const int count = cq_.Poll(absl::MakeSpan(completions));
  // A failed queue never completes anything again; keepalive and the
  // connection manager end its connections.
  for (int i = 0; i < count; ++i) Handle(completions[i]);
  const int woken = slot_waiters_.empty() ? 0 : WakeSlotWaiters();
  return std::max(count, 0) + woken;
}

CompletionHandler* PollerDevice::FindHandler(uint32_t qp_num) {
  Cached& cached = cached_handlers_[qp_num % kCachedHandlers];
  if (__builtin_expect(cached.qp_num == qp_num, 1)) return cached.handler;
  const auto found = handlers_.find(qp_num);
  if (found == handlers_.end()) return nullptr;
  cached = {qp_num, found->second};
  return cached.handler;
}

void PollerDevice::Handle(const ibv_wc& completion) {
  const bool receive = (completion.wr_id & ReceiveSlots::kReceiveTag) != 0;
  const uint32_t slot = static_cast<uint32_t>(completion.wr_id);
  CompletionHandler* const handler = FindHandler(completion.qp_num);
  if (handler != nullptr) {
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
