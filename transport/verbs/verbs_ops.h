// The control verbs of one RDMA provider, as a table.
//
// Each entry has the name, arguments and behaviour of the libibverbs function
// of that name; its man page is its documentation. The names carry no ibv_
// prefix because <infiniband/verbs.h> makes some of them macros, like
// ibv_reg_mr and ibv_query_port.
//
// The data path is not here. ibv_post_send, ibv_poll_cq and their like are
// inline functions that call through ibv_context::ops, which every provider
// fills, so a software device costs the same indirect call as hardware.
//
// A provider fills every entry; none is null. Keep sorted.

#ifndef VERBENA_TRANSPORT_VERBS_VERBS_OPS_H_
#define VERBENA_TRANSPORT_VERBS_VERBS_OPS_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace verbena::transport {

struct VerbsOps {
  void (*ack_async_event)(ibv_async_event* event);
  void (*ack_cq_events)(ibv_cq* cq, unsigned int count);
  ibv_pd* (*alloc_pd)(ibv_context* context);
  int (*attach_mcast)(ibv_qp* qp, const ibv_gid* group, uint16_t lid);
  int (*close_device)(ibv_context* context);
  ibv_ah* (*create_ah)(ibv_pd* pd, ibv_ah_attr* attributes);
  ibv_ah* (*create_ah_from_wc)(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh,
                               uint8_t port);
  ibv_comp_channel* (*create_comp_channel)(ibv_context* context);
  ibv_cq* (*create_cq)(ibv_context* context, int cqe, void* cq_context,
                       ibv_comp_channel* channel, int comp_vector);
  ibv_qp* (*create_qp)(ibv_pd* pd, ibv_qp_init_attr* attributes);
  ibv_srq* (*create_srq)(ibv_pd* pd, ibv_srq_init_attr* attributes);
  int (*dealloc_pd)(ibv_pd* pd);
  int (*dereg_mr)(ibv_mr* mr);
  int (*destroy_ah)(ibv_ah* ah);
  int (*destroy_comp_channel)(ibv_comp_channel* channel);
  int (*destroy_cq)(ibv_cq* cq);
  int (*destroy_qp)(ibv_qp* qp);
  int (*destroy_srq)(ibv_srq* srq);
  int (*detach_mcast)(ibv_qp* qp, const ibv_gid* group, uint16_t lid);
  void (*free_device_list)(ibv_device** list);
  int (*get_async_event)(ibv_context* context, ibv_async_event* event);
  int (*get_cq_event)(ibv_comp_channel* channel, ibv_cq** cq,
                      void** cq_context);
  ibv_device** (*get_device_list)(int* num_devices);
  const char* (*get_device_name)(ibv_device* device);
  int (*init_ah_from_wc)(ibv_context* context, uint8_t port, ibv_wc* wc,
                         ibv_grh* grh, ibv_ah_attr* attributes);
  int (*modify_qp)(ibv_qp* qp, ibv_qp_attr* attributes, int mask);
  int (*modify_srq)(ibv_srq* srq, ibv_srq_attr* attributes, int mask);
  ibv_context* (*open_device)(ibv_device* device);
  ibv_qp_ex* (*qp_to_qp_ex)(ibv_qp* qp);
  int (*query_device)(ibv_context* context, ibv_device_attr* attributes);
  int (*query_gid)(ibv_context* context, uint8_t port, int index, ibv_gid* gid);
  int (*query_pkey)(ibv_context* context, uint8_t port, int index,
                    __be16* pkey);
  int (*query_port)(ibv_context* context, uint8_t port,
                    ibv_port_attr* attributes);
  int (*query_qp)(ibv_qp* qp, ibv_qp_attr* attributes, int mask,
                  ibv_qp_init_attr* init_attributes);
  int (*query_srq)(ibv_srq* srq, ibv_srq_attr* attributes);
  ibv_mr* (*reg_mr)(ibv_pd* pd, void* addr, size_t length, int access);
  ibv_mr* (*reg_mr_iova)(ibv_pd* pd, void* addr, size_t length, uint64_t iova,
                         int access);
  int (*rereg_mr)(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, size_t length,
                  int access);
  int (*resize_cq)(ibv_cq* cq, int cqe);
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_VERBS_VERBS_OPS_H_
