#include "transport/soft/soft_faults.h"

#include <utility>

#include "transport/base/check.h"
#include "transport/soft/address/port_states.h"
#include "transport/soft/connected/connected_queue_pair.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/queues/completion_queue.h"

namespace verbena::soft {
namespace {

ConnectedQueuePair& Connected(ibv_qp* qp) {
  CHECK(qp->qp_type != IBV_QPT_UD) << "a datagram queue pair has no link";
  return *ConnectedQueuePair::From(qp);
}

void ForEachConnected(const std::function<void(ConnectedQueuePair&)>& call) {
  SoftDevice::Get().queue_pairs().ForEach([&call](DeviceQueuePair& qp) {
    if (qp.handle()->qp_type != IBV_QPT_UD) call(Connected(qp.handle()));
  });
}

}  // namespace

void StallLink(ibv_qp* qp) {
  Connected(qp).held_link().Begin(HeldLink::Hold::kStalled);
}

void CutLink(ibv_qp* qp) {
  Connected(qp).held_link().Begin(HeldLink::Hold::kCut);
}

void SlowLink(ibv_qp* qp,
              std::function<std::chrono::nanoseconds()> next_pause) {
  Connected(qp).held_link().Begin(HeldLink::Hold::kSlow, std::move(next_pause));
}

void ReleaseLink(ibv_qp* qp) { Connected(qp).held_link().Release(); }

void StallAllLinks() {
  ForEachConnected([](ConnectedQueuePair& qp) {
    qp.held_link().Begin(HeldLink::Hold::kStalled);
  });
}

void CutAllLinks() {
  ForEachConnected([](ConnectedQueuePair& qp) {
    qp.held_link().Begin(HeldLink::Hold::kCut);
  });
}

void ReleaseAllLinks() {
  ForEachConnected([](ConnectedQueuePair& qp) { qp.held_link().Release(); });
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
  Connected(qp).receives().Withhold(times);
}

void ReleaseReceiver(ibv_qp* qp) { Connected(qp).receives().Withhold(0); }

void ExhaustQueue(ibv_cq* cq) { CompletionQueue::From(cq)->Exhaust(); }

}  // namespace verbena::soft
