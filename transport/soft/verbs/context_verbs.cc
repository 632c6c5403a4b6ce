#include "transport/soft/verbs/context_verbs.h"

#include <memory>

#include "transport/soft/device/context.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/queues/completion_queue.h"
#include "transport/soft/queues/queue_pair.h"
#include "transport/soft/queues/receive_queue.h"
#include "transport/soft/verbs/checked.h"
#include "transport/soft/verbs/device_attributes.h"
#include "transport/soft/verbs/memory_window_verbs.h"
#include "transport/soft/verbs/setting_errno.h"

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
  return QueuePair::From(qp)->PostSend(wr, bad_wr);
}
int PostReceive(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  return QueuePair::From(qp)->PostReceive(wr, bad_wr);
}

// Fills the verbs that the inline functions of <infiniband/verbs.h> look for in
// front of the ibv_context. For others than these they answer EOPNOTSUPP.
void FillExtendedVerbs(verbs_context& verbs) {
  verbs.sz = sizeof(verbs_context);
  verbs.query_device_ex = Checked<QueryDeviceEx>;
  verbs.query_port = Checked<QueryPortEx>;
  verbs.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
}

// The verbs of the data path are not checked for live handles, because that
// takes a lock.
void FillInlineVerbs(ibv_context_ops& verbs) {
  verbs.alloc_mw = Checked<AllocMw>;
  verbs.bind_mw = Checked<BindMw>;
  verbs.dealloc_mw = Checked<DeallocMw>;
  verbs.poll_cq = PollCq;
  verbs.req_notify_cq = RequestNotifyCq;
  verbs.post_srq_recv = SettingErrno<PostSrqReceive>;
  verbs.post_send = SettingErrno<PostSend>;
  verbs.post_recv = SettingErrno<PostReceive>;
}

}  // namespace

ibv_context* OpenContext(SoftDevice& device) {
  // The engine's thread is the parent's: queue pairs of this process would not
  // be looked after.
  if (device.IsLostByFork()) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  std::unique_ptr<Context> context = Context::Create(device);
  if (context == nullptr) return nullptr;
  FillExtendedVerbs(*context);
  FillInlineVerbs(context->handle()->ops);
  return context.release()->handle();
}

}  // namespace verbena::soft
