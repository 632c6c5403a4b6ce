#include "transport/soft/preload/next_provider.h"

#include <infiniband/verbs.h>

#include "transport/soft/preload/next_definition.h"

// The function behind the macro.
#undef ibv_query_port

namespace verbena::soft {
namespace {

// The exported function fills only the oldest part of the attributes.
int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attributes) {
  static const decltype(&ibv_query_port) next =
      NextDefinition("ibv_query_port");
  *attributes = {};
  return next(context, port,
              reinterpret_cast<_compat_ibv_port_attr*>(attributes));
}

using Next = NextDefinition;

// Looks up all functions at once: libraries that are too old are noticed at the
// first call, and not in the middle of a program.
transport::Provider FindNextProvider() {
  return {
      .name = "system",
      .verbs =
          {
              .ack_async_event = Next("ibv_ack_async_event"),
              .ack_cq_events = Next("ibv_ack_cq_events"),
              .alloc_pd = Next("ibv_alloc_pd"),
              .attach_mcast = Next("ibv_attach_mcast"),
              .close_device = Next("ibv_close_device"),
              .create_ah = Next("ibv_create_ah"),
              .create_ah_from_wc = Next("ibv_create_ah_from_wc"),
              .create_comp_channel = Next("ibv_create_comp_channel"),
              .create_cq = Next("ibv_create_cq"),
              .create_qp = Next("ibv_create_qp"),
              .create_srq = Next("ibv_create_srq"),
              .dealloc_pd = Next("ibv_dealloc_pd"),
              .dereg_mr = Next("ibv_dereg_mr"),
              .destroy_ah = Next("ibv_destroy_ah"),
              .destroy_comp_channel = Next("ibv_destroy_comp_channel"),
              .destroy_cq = Next("ibv_destroy_cq"),
              .destroy_qp = Next("ibv_destroy_qp"),
              .destroy_srq = Next("ibv_destroy_srq"),
              .detach_mcast = Next("ibv_detach_mcast"),
              .free_device_list = Next("ibv_free_device_list"),
              .get_async_event = Next("ibv_get_async_event"),
              .get_cq_event = Next("ibv_get_cq_event"),
              .get_device_list = Next("ibv_get_device_list"),
              .get_device_name = Next("ibv_get_device_name"),
              .init_ah_from_wc = Next("ibv_init_ah_from_wc"),
              .modify_qp = Next("ibv_modify_qp"),
              .modify_srq = Next("ibv_modify_srq"),
              .open_device = Next("ibv_open_device"),
              .qp_to_qp_ex = Next("ibv_qp_to_qp_ex"),
              .query_device = Next("ibv_query_device"),
              .query_gid = Next("ibv_query_gid"),
              .query_pkey = Next("ibv_query_pkey"),
              .query_port = QueryPort,
              .query_qp = Next("ibv_query_qp"),
              .query_srq = Next("ibv_query_srq"),
              .reg_mr = Next("ibv_reg_mr"),
              .reg_mr_iova = Next("ibv_reg_mr_iova"),
              .rereg_mr = Next("ibv_rereg_mr"),
              .resize_cq = Next("ibv_resize_cq"),
          },
      .cm =
          {
              .accept = Next("rdma_accept"),
              .ack_cm_event = Next("rdma_ack_cm_event"),
              .bind_addr = Next("rdma_bind_addr"),
              .connect = Next("rdma_connect"),
              .create_event_channel = Next("rdma_create_event_channel"),
              .create_id = Next("rdma_create_id"),
              .create_qp = Next("rdma_create_qp"),
              .destroy_event_channel = Next("rdma_destroy_event_channel"),
              .destroy_id = Next("rdma_destroy_id"),
              .destroy_qp = Next("rdma_destroy_qp"),
              .disconnect = Next("rdma_disconnect"),
              .get_cm_event = Next("rdma_get_cm_event"),
              .get_src_port = Next("rdma_get_src_port"),
              .listen = Next("rdma_listen"),
              .migrate_id = Next("rdma_migrate_id"),
              .reject = Next("rdma_reject"),
              .resolve_addr = Next("rdma_resolve_addr"),
              .resolve_route = Next("rdma_resolve_route"),
              .set_option = Next("rdma_set_option"),
          },
  };
}

}  // namespace

const transport::Provider& NextProvider() {
  static const transport::Provider provider = FindNextProvider();
  return provider;
}

}  // namespace verbena::soft
