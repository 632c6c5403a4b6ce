#include "transport/soft/verbs/verbs_table.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "transport/soft/address/gid_table.h"
#include "transport/soft/address/port_states.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/device/context.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/queues/completion_queue.h"
#include "transport/soft/queues/queue_pair.h"
#include "transport/soft/queues/receive_queue.h"
#include "transport/soft/queues/verbs_handle.h"
#include "transport/soft/verbs/checked.h"
#include "transport/soft/verbs/context_verbs.h"
#include "transport/soft/verbs/create_queues.h"
#include "transport/soft/verbs/device_attributes.h"
#include "transport/soft/verbs/lacking.h"
#include "transport/soft/verbs/memory_region.h"
#include "transport/soft/verbs/refuse.h"

namespace verbena::soft {
namespace {

// Devices and contexts.

ibv_device** GetDeviceList(int* count) {
  // The list is one block, as that of libibverbs is, because programs pass it
  // to free(). The last entry is null.
  auto** const list = static_cast<ibv_device**>(
      std::calloc(1, sizeof(std::array<ibv_device*, 2>)));
  if (list == nullptr) return nullptr;
  list[0] = SoftDevice::Get().verbs_device();
  if (count != nullptr) *count = 1;
  return list;
}

void FreeDeviceList(ibv_device** list) { std::free(list); }

const char* GetDeviceName(ibv_device* device) { return device->name; }

ibv_context* OpenDevice(ibv_device* device) {
  if (device != SoftDevice::Get().verbs_device()) {
    return Refuse<ibv_context>(ENODEV);
  }
  return OpenContext(SoftDevice::Get());
}

int CloseDevice(ibv_context* context) {
  if (Context::From(context)->children() != 0) return EBUSY;
  delete Context::From(context);
  return 0;
}

int QueryGid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
  if (!IsPort(port) || index < 0 || index >= GidTable::kEntries) {
    errno = EINVAL;
    return -1;
  }
  // Addresses come and go. An entry without one reads as zero, as on a NIC.
  GidTable& gids = SoftDevice::Get().gids();
  gids.Refresh();
  *gid = gids.At(index).value_or(ibv_gid_entry{}).gid;
  return 0;
}

// Protection domains.

ibv_pd* AllocPd(ibv_context* context) {
  ++Context::From(context)->children();
  return new ProtectionDomain(*Context::From(context));
}

int DeallocPd(ibv_pd* pd) {
  if (ProtectionDomain::From(pd)->children() != 0) return EBUSY;
  --Context::From(pd->context)->children();
  delete ProtectionDomain::From(pd);
  return 0;
}

// Completion channels and queues.

ibv_comp_channel* CreateCompChannel(ibv_context* context) {
  std::unique_ptr<CompletionChannel> channel =
      CompletionChannel::Create(*Context::From(context));
  if (channel != nullptr) ++Context::From(context)->children();
  return channel.release();
}

// Its completion queues raise their events here, so they must go first.
int DestroyCompChannel(ibv_comp_channel* channel) {
  if (CompletionChannel::From(channel)->children() != 0) return EBUSY;
  --Context::From(channel->context)->children();
  delete CompletionChannel::From(channel);
  return 0;
}

// The channel and the context are let go of last, because they outlive the
// queue.
int DestroyCq(ibv_cq* cq) {
  if (!CompletionQueue::From(cq)->queue_pairs().empty()) return EBUSY;
  ibv_context* context = cq->context;
  ibv_comp_channel* channel = cq->channel;
  // Waits until the user has acknowledged its events.
  delete CompletionQueue::From(cq);
  if (channel != nullptr) --CompletionChannel::From(channel)->children();
  --Context::From(context)->children();
  return 0;
}

int GetCqEvent(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  EventQueue::Event event;
  if (!CompletionChannel::From(channel)->events().Get(event)) return -1;
  *cq = static_cast<ibv_cq*>(event.object);
  *cq_context = (*cq)->cq_context;
  return 0;
}

void AckCqEvents(ibv_cq* cq, unsigned int count) {
  CompletionQueue::From(cq)->AcknowledgeCompletionEvents(count);
}

// Shared receive queues and queue pairs.

ibv_srq* CreateSrq(ibv_pd* pd, ibv_srq_init_attr* attributes) {
  if (attributes->attr.max_wr == 0 ||
      attributes->attr.max_wr > kQueueDepthMax ||
      attributes->attr.max_sge > kGatherEntriesMax) {
    return Refuse<ibv_srq>(EINVAL);
  }
  // The user reads here what was granted.
  attributes->attr.max_wr = RoundedDepth(attributes->attr.max_wr);
  attributes->attr.max_sge = std::max(attributes->attr.max_sge, 1u);
  return new SharedReceiveQueue(*ProtectionDomain::From(pd), *attributes);
}

int DestroySrq(ibv_srq* srq) {
  if (SharedReceiveQueue::From(srq)->children() != 0) return EBUSY;
  delete SharedReceiveQueue::From(srq);
  return 0;
}

int ModifySrq(ibv_srq* srq, ibv_srq_attr* attributes, int mask) {
  return SharedReceiveQueue::From(srq)->Modify(*attributes, mask);
}

int QuerySrq(ibv_srq* srq, ibv_srq_attr* attributes) {
  SharedReceiveQueue::From(srq)->Query(*attributes);
  return 0;
}

int DestroyQp(ibv_qp* qp) {
  QueuePair* const queue_pair = QueuePair::From(qp);
  // A multicast group still delivers to it.
  if (queue_pair->children() != 0) return EBUSY;
  // The connection manager may have made the queue pair, and must let go of it
  // while it is whole.
  if (queue_pair->before_destroy) queue_pair->before_destroy();
  delete queue_pair;
  return 0;
}

int ModifyQp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  return QueuePair::From(qp)->Modify(*attributes, mask);
}

// The mask is a hint: every attribute is returned.
int QueryQp(ibv_qp* qp, ibv_qp_attr* attributes, int mask,
            ibv_qp_init_attr* init_attributes) {
  QueuePair::From(qp)->Query(*attributes, *init_attributes);
  return 0;
}

}  // namespace

transport::VerbsOps SoftVerbsOps() {
  return transport::VerbsOps{
      .ack_async_event = Lacking,
      .ack_cq_events = Checked<AckCqEvents>,
      .alloc_pd = Checked<AllocPd>,
      .attach_mcast = Lacking,
      .close_device = Checked<CloseDevice>,
      .create_ah = Lacking,
      .create_ah_from_wc = Lacking,
      .create_comp_channel = Checked<CreateCompChannel>,
      .create_cq = Checked<CreateCq>,
      .create_qp = Checked<CreateQp>,
      .create_srq = Checked<CreateSrq>,
      .dealloc_pd = Checked<DeallocPd>,
      .dereg_mr = Checked<DeregMr>,
      .destroy_ah = Lacking,
      .destroy_comp_channel = Checked<DestroyCompChannel>,
      .destroy_cq = Checked<DestroyCq>,
      .destroy_qp = Checked<DestroyQp>,
      .destroy_srq = Checked<DestroySrq>,
      .detach_mcast = Lacking,
      .free_device_list = FreeDeviceList,
      .get_async_event = Lacking<-1>,
      .get_cq_event = Checked<GetCqEvent, -1>,
      .get_device_list = GetDeviceList,
      .get_device_name = GetDeviceName,
      .init_ah_from_wc = Lacking<-1>,
      .modify_qp = Checked<ModifyQp>,
      .modify_srq = Checked<ModifySrq>,
      .open_device = OpenDevice,
      .qp_to_qp_ex = Lacking,
      .query_device = Checked<QueryDevice>,
      .query_gid = Checked<QueryGid, -1>,
      .query_pkey = Checked<QueryPkey, -1>,
      .query_port = Checked<QueryPort>,
      .query_qp = Checked<QueryQp>,
      .query_srq = Checked<QuerySrq>,
      .reg_mr = Checked<RegMr>,
      .reg_mr_iova = Checked<RegMrAt>,
      .rereg_mr = Lacking<-1>,
      .resize_cq = Lacking,
  };
}

}  // namespace verbena::soft
