#include "transport/soft/queues/verbs_handle.h"

#include <algorithm>
#include <cerrno>

#include "transport/soft/base/limits.h"
#include "transport/soft/base/live_handles.h"
#include "transport/soft/device/context.h"
#include "transport/soft/queues/receive_queue.h"

namespace verbena::soft {
namespace {

bool WithinLimits(const ibv_qp_cap& cap) {
  return cap.max_send_wr <= kQueueDepthMax &&
         cap.max_recv_wr <= kQueueDepthMax &&
         cap.max_send_sge <= kGatherEntriesMax &&
         cap.max_recv_sge <= kGatherEntriesMax &&
         cap.max_inline_data <= kInlineBytesMax;
}

// A queue of nothing stays so.
void RoundUp(ibv_qp_cap& cap) {
  if (cap.max_send_wr > 0) {
    cap.max_send_wr = RoundedDepth(cap.max_send_wr);
    cap.max_send_sge = std::max(cap.max_send_sge, 1u);
    cap.max_inline_data = RoundedInlineBytes(cap.max_inline_data);
  }
  if (cap.max_recv_wr > 0) {
    cap.max_recv_wr = RoundedDepth(cap.max_recv_wr);
    cap.max_recv_sge = std::max(cap.max_recv_sge, 1u);
  }
}

// Handles come from the user, so each is looked up before it is followed.
bool SameContext(const ProtectionDomain& pd, const ibv_qp_init_attr& wanted) {
  return IsLive(wanted.send_cq) && wanted.send_cq->context == pd.context &&
         IsLive(wanted.recv_cq) && wanted.recv_cq->context == pd.context &&
         (wanted.srq == nullptr ||
          (IsLive(wanted.srq) && wanted.srq->context == pd.context));
}

}  // namespace

int GrantInitAttributes(const ProtectionDomain& domain,
                        ibv_qp_init_attr& attributes) {
  if (!WithinLimits(attributes.cap) || !SameContext(domain, attributes)) {
    return EINVAL;
  }
  RoundUp(attributes.cap);
  if (attributes.srq != nullptr) {
    attributes.cap.max_recv_wr = attributes.cap.max_recv_sge = 0;
  }
  return 0;
}

QueuePairHandle::QueuePairHandle(ProtectionDomain& domain,
                                 const ibv_qp_init_attr& attributes)
    : ibv_qp() {
  context = domain.context;
  qp_context = attributes.qp_context;
  pd = &domain;
  send_cq = attributes.send_cq;
  recv_cq = attributes.recv_cq;
  srq = attributes.srq;
  qp_type = attributes.qp_type;
  ibv_qp::state = IBV_QPS_RESET;
  // Counted until it is destroyed, so that the domain and the shared queue
  // cannot go before.
  ++domain.children();
  if (srq != nullptr) ++SharedReceiveQueue::From(srq)->children();
}

QueuePairHandle::~QueuePairHandle() {
  if (srq != nullptr) --SharedReceiveQueue::From(srq)->children();
  --ProtectionDomain::From(pd)->children();
}

}  // namespace verbena::soft
