#include "transport/soft/device/context.h"

#include <utility>

#include "transport/soft/connected/queue_pair.h"
#include "transport/soft/datagram/datagram_queue_pair.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/queues/completion_queue.h"
#include "transport/soft/queues/receive_queue.h"
#include "transport/soft/verbs/device_attributes.h"
#include "transport/soft/verbs/device_memory.h"
#include "transport/soft/verbs/extended_completion_queue.h"
#include "transport/soft/verbs/extended_queue_pair.h"
#include "transport/soft/verbs/memory_region.h"
#include "transport/soft/verbs/memory_window_verbs.h"
#include "transport/soft/verbs/parent_domain.h"

namespace verbena::soft {
namespace {

int PollCq(ibv_cq* cq, int count, ibv_wc* completions) {
  return CompletionQueue::From(cq)->Poll(count, completions);
}
int RequestNotifyCq(ibv_cq* cq, int solicited_only) {
  return CompletionQueue::From(cq)->Arm(solicited_only != 0);
}
int PostSrqReceive(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  return SharedReceiveQueue::From(srq)->Post(wr, bad_wr);
}
int PostSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  if (DatagramQueuePair::Is(qp)) [[unlikely]] {
    return DatagramQueuePair::From(qp)->PostSend(wr, bad_wr);
  }
  return QueuePair::From(qp)->PostSend(wr, bad_wr);
}
int PostReceive(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  if (DatagramQueuePair::Is(qp)) [[unlikely]] {
    return DatagramQueuePair::From(qp)->PostReceive(wr, bad_wr);
  }
  return QueuePair::From(qp)->PostReceive(wr, bad_wr);
}

}  // namespace

std::unique_ptr<Context> Context::Create(SoftDevice& device) {
  std::unique_ptr<EventQueue> async_events = EventQueue::Create();
  if (async_events == nullptr) return nullptr;
  return std::unique_ptr<Context>(new Context(device, std::move(async_events)));
}

Context::Context(SoftDevice& soft, std::unique_ptr<EventQueue> async_events)
    : verbs_context(), device_(soft), async_events_(std::move(async_events)) {
  sz = sizeof(verbs_context);
  advise_mr = AdviseMr;
  alloc_dm = AllocDm;
  alloc_parent_domain = AllocParentDomain;
  alloc_td = AllocTd;
  create_cq_ex = CreateCqEx;
  create_qp_ex = CreateQpEx;
  dealloc_td = DeallocTd;
  free_dm = FreeDm;
  query_device_ex = QueryDeviceEx;
  query_port = QueryPortEx;
  query_rt_values = QueryRtValues;
  reg_dm_mr = RegDmMr;

  context.device = soft.verbs_device();
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  context.ops.alloc_mw = AllocMw;
  context.ops.bind_mw = BindMw;
  context.ops.dealloc_mw = DeallocMw;
  context.ops.poll_cq = PollCq;
  context.ops.req_notify_cq = RequestNotifyCq;
  context.ops.post_srq_recv = PostSrqReceive;
  context.ops.post_send = PostSend;
  context.ops.post_recv = PostReceive;
  context.cmd_fd = -1;
  context.async_fd = async_events_->fd();
  context.num_comp_vectors = 1;
  soft.port_events().Add(this);
}

Context::~Context() { device_.port_events().Remove(this); }

void Context::RaisePortEvent(ibv_event_type type, uint8_t port) {
  async_events_->Raise(
      {&port_source_, reinterpret_cast<void*>(uintptr_t{port}), type});
}

}  // namespace verbena::soft
