// Beside those of soft/preload, which take the place of those functions, this
// is the only file that names an exported function of libibverbs or librdmacm.

#include "transport/verbs/system_provider.h"

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "transport/verbs/error.h"
#include "transport/verbs/removed_contexts.h"

namespace verbena::transport {
namespace {

// These four are macros in <infiniband/verbs.h>, and the exported functions of
// the same names are not what the macros call.

ibv_device** GetDeviceList(int* num_devices) {
  return ibv_get_device_list(num_devices);
}

int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attributes) {
  return ibv_query_port(context, port, attributes);
}

ibv_mr* RegMr(ibv_pd* pd, void* addr, size_t length, int access) {
  return ibv_reg_mr(pd, addr, length, access);
}

ibv_mr* RegMrIova(ibv_pd* pd, void* addr, size_t length, uint64_t iova,
                  int access) {
  return ibv_reg_mr_iova(pd, addr, length, iova, access);
}

// rdma_get_src_port() returns __be16, but the entry in the table uint16_t.

uint16_t GetSrcPort(rdma_cm_id* id) { return rdma_get_src_port(id); }

// Never destroyed, because threads may run when main() has ended.
RemovedContexts& Removed() {
  static auto* const contexts = new RemovedContexts;
  return *contexts;
}

ibv_cq* CreateCq(ibv_context* context, int cqe, void* cq_context,
                 ibv_comp_channel* channel, int comp_vector) {
  ibv_cq* const cq =
      ibv_create_cq(context, cqe, cq_context, channel, comp_vector);
  if (cq != nullptr) Removed().OnCqCreated(context);
  return cq;
}

// A device that is gone has destroyed the queue itself: see IsGone().
int DestroyCq(ibv_cq* cq) {
  ibv_context* const context = cq->context;
  const int error = ibv_destroy_cq(cq);
  if (error == 0 || IsGone(error)) Removed().OnCqDestroyed(context);
  return error;
}

int GetCmEvent(rdma_event_channel* channel, rdma_cm_event** event) {
  const int result = rdma_get_cm_event(channel, event);
  if (result == 0 && (*event)->event == RDMA_CM_EVENT_DEVICE_REMOVAL &&
      (*event)->id->verbs != nullptr) {
    Removed().OnRemoved((*event)->id->verbs);
  }
  return result;
}

// A constant, so nothing runs and no device is opened before an entry is
// called.
constexpr Provider kSystemProvider = {
    .name = "system",
    .verbs =
        {
            .ack_async_event = ibv_ack_async_event,
            .ack_cq_events = ibv_ack_cq_events,
            .alloc_pd = ibv_alloc_pd,
            .attach_mcast = ibv_attach_mcast,
            .close_device = ibv_close_device,
            .create_ah = ibv_create_ah,
            .create_ah_from_wc = ibv_create_ah_from_wc,
            .create_comp_channel = ibv_create_comp_channel,
            .create_cq = CreateCq,
            .create_qp = ibv_create_qp,
            .create_srq = ibv_create_srq,
            .dealloc_pd = ibv_dealloc_pd,
            .dereg_mr = ibv_dereg_mr,
            .destroy_ah = ibv_destroy_ah,
            .destroy_comp_channel = ibv_destroy_comp_channel,
            .destroy_cq = DestroyCq,
            .destroy_qp = ibv_destroy_qp,
            .destroy_srq = ibv_destroy_srq,
            .detach_mcast = ibv_detach_mcast,
            .free_device_list = ibv_free_device_list,
            .get_async_event = ibv_get_async_event,
            .get_cq_event = ibv_get_cq_event,
            .get_device_list = GetDeviceList,
            .get_device_name = ibv_get_device_name,
            .init_ah_from_wc = ibv_init_ah_from_wc,
            .modify_qp = ibv_modify_qp,
            .modify_srq = ibv_modify_srq,
            .open_device = ibv_open_device,
            .qp_to_qp_ex = ibv_qp_to_qp_ex,
            .query_device = ibv_query_device,
            .query_gid = ibv_query_gid,
            .query_pkey = ibv_query_pkey,
            .query_port = QueryPort,
            .query_qp = ibv_query_qp,
            .query_srq = ibv_query_srq,
            .reg_mr = RegMr,
            .reg_mr_iova = RegMrIova,
            .rereg_mr = ibv_rereg_mr,
            .resize_cq = ibv_resize_cq,
        },
    .cm =
        {
            .accept = rdma_accept,
            .ack_cm_event = rdma_ack_cm_event,
            .bind_addr = rdma_bind_addr,
            .connect = rdma_connect,
            .create_event_channel = rdma_create_event_channel,
            .create_id = rdma_create_id,
            .create_qp = rdma_create_qp,
            .destroy_event_channel = rdma_destroy_event_channel,
            .destroy_id = rdma_destroy_id,
            .destroy_qp = rdma_destroy_qp,
            .disconnect = rdma_disconnect,
            .get_cm_event = GetCmEvent,
            .get_src_port = GetSrcPort,
            .listen = rdma_listen,
            .migrate_id = rdma_migrate_id,
            .reject = rdma_reject,
            .resolve_addr = rdma_resolve_addr,
            .resolve_route = rdma_resolve_route,
            .set_option = rdma_set_option,
        },
    .removes_devices = true,
};

}  // namespace

const Provider& SystemProvider() { return kSystemProvider; }

}  // namespace verbena::transport
