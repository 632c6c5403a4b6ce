#include "transport/soft/soft_faults.h"

#include <utility>

#include "transport/base/check.h"
#include "transport/soft/address/port_states.h"
#include "transport/soft/connected/queue_pair.h"
#include "transport/soft/datagram/datagram_queue_pair.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/queues/completion_queue.h"

namespace verbena::soft {
namespace {

QueuePair& Connected(ibv_qp* qp) {
  CHECK(!DatagramQueuePair::Is(qp)) << "a datagram queue pair has no link";
  return *QueuePair::From(qp);
}

}  // namespace

void StallLink(ibv_qp* qp) { Connected(qp).HoldLink(LinkHold::kStalled); }

void CutLink(ibv_qp* qp) { Connected(qp).HoldLink(LinkHold::kCut); }

void SlowLink(ibv_qp* qp,
              std::function<std::chrono::nanoseconds()> next_pause) {
  Connected(qp).HoldLink(LinkHold::kSlow, std::move(next_pause));
}

void ReleaseLink(ibv_qp* qp) { Connected(qp).ReleaseLink(); }

void StallAllLinks() {
  SoftDevice::Get().queue_pairs().ForEach(
      [](QueuePair& qp) { qp.HoldLink(LinkHold::kStalled); });
}

void CutAllLinks() {
  SoftDevice::Get().queue_pairs().ForEach(
      [](QueuePair& qp) { qp.HoldLink(LinkHold::kCut); });
}

void ReleaseAllLinks() {
  SoftDevice::Get().queue_pairs().ForEach(
      [](QueuePair& qp) { qp.ReleaseLink(); });
}

void TakePortDown(uint8_t port) {
  CHECK(IsPort(port)) << "there is no port " << int{port};
  SoftDevice::Get().SetPortState(port, PortState::kDown);
}

void BringPortUp(uint8_t port) {
  CHECK(IsPort(port)) << "there is no port " << int{port};
  SoftDevice::Get().SetPortState(port, PortState::kActive);
}

void ForceReceiverNotReady(ibv_qp* qp, uint32_t times) {
  Connected(qp).ForceReceiverNotReady(times);
}

void ReleaseReceiver(ibv_qp* qp) { Connected(qp).ForceReceiverNotReady(0); }

void ExhaustQueue(ibv_cq* cq) { CompletionQueue::From(cq)->Exhaust(); }

}  // namespace verbena::soft
