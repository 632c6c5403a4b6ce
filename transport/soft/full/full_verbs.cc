#include "transport/soft/full/full_verbs.h"

#include <cerrno>

#include "transport/soft/datagram/datagram_verbs.h"
#include "transport/soft/device/context.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/extended/advise_mr.h"
#include "transport/soft/extended/async_events.h"
#include "transport/soft/extended/device_memory.h"
#include "transport/soft/extended/extended_attributes.h"
#include "transport/soft/extended/extended_completion_queue.h"
#include "transport/soft/extended/extended_queue_pair.h"
#include "transport/soft/extended/parent_domain.h"
#include "transport/soft/extended/rereg_mr.h"
#include "transport/soft/extended/resize_cq.h"
#include "transport/soft/verbs/checked.h"
#include "transport/soft/verbs/context_verbs.h"
#include "transport/soft/verbs/refuse.h"
#include "transport/soft/verbs/verbs_table.h"

namespace verbena::soft {
namespace {

// The entry of SoftVerbsOps() would make a context without the extended verbs.
ibv_context* OpenDevice(ibv_device* device) {
  if (device != SoftDevice::Get().verbs_device()) {
    return Refuse<ibv_context>(ENODEV);
  }
  return OpenFullContext(SoftDevice::Get());
}

}  // namespace

ibv_context* OpenFullContext(SoftDevice& device) {
  ibv_context* const context = OpenContext(device);
  if (context == nullptr) return nullptr;
  verbs_context& verbs = *Context::From(context);
  verbs.advise_mr = Checked<AdviseMr>;
  verbs.alloc_dm = Checked<AllocDm>;
  verbs.alloc_parent_domain = Checked<AllocParentDomain>;
  verbs.alloc_td = Checked<AllocTd>;
  verbs.create_cq_ex = Checked<CreateCqEx>;
  verbs.create_qp_ex = Checked<CreateQpEx>;
  verbs.dealloc_td = Checked<DeallocTd>;
  verbs.free_dm = Checked<FreeDm>;
  verbs.query_device_ex = Checked<QueryWholeDevice>;
  verbs.query_rt_values = Checked<QueryRtValues>;
  verbs.reg_dm_mr = Checked<RegDmMr>;
  return context;
}

transport::VerbsOps FullVerbsOps() {
  transport::VerbsOps verbs = SoftVerbsOps();
  verbs.ack_async_event = AckAsyncEvent;
  verbs.attach_mcast = Checked<AttachMcast>;
  verbs.create_ah = Checked<CreateAh>;
  verbs.create_ah_from_wc = Checked<CreateAhFromWc>;
  verbs.create_qp = Checked<CreateQpOfAnyType>;
  verbs.destroy_ah = Checked<DestroyAh>;
  verbs.detach_mcast = Checked<DetachMcast>;
  verbs.get_async_event = Checked<GetAsyncEvent, -1>;
  verbs.init_ah_from_wc = Checked<InitAhFromWc, -1>;
  verbs.open_device = OpenDevice;
  verbs.qp_to_qp_ex = Checked<ToExtendedQueuePair>;
  verbs.rereg_mr = Checked<ReregMr, -1>;
  verbs.resize_cq = Checked<ResizeCq>;
  return verbs;
}

}  // namespace verbena::soft
