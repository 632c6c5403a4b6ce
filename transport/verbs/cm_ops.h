// The RDMA connection manager of one provider, as a table.
//
// Each entry has the name, arguments and behaviour of the librdmacm function of
// that name (rdma_connect is `connect`); its man page is its documentation.
//
// A provider fills every entry; none is null. Keep sorted.

#ifndef VERBENA_TRANSPORT_VERBS_CM_OPS_H_
#define VERBENA_TRANSPORT_VERBS_CM_OPS_H_

#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>

namespace verbena::transport {

struct CmOps {
  int (*accept)(rdma_cm_id* id, rdma_conn_param* parameters);
  int (*ack_cm_event)(rdma_cm_event* event);
  int (*bind_addr)(rdma_cm_id* id, sockaddr* address);
  int (*connect)(rdma_cm_id* id, rdma_conn_param* parameters);
  rdma_event_channel* (*create_event_channel)();
  int (*create_id)(rdma_event_channel* channel, rdma_cm_id** id, void* context,
                   rdma_port_space port_space);
  int (*create_qp)(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attributes);
  void (*destroy_event_channel)(rdma_event_channel* channel);
  int (*destroy_id)(rdma_cm_id* id);
  void (*destroy_qp)(rdma_cm_id* id);
  int (*disconnect)(rdma_cm_id* id);
  // Fails with EAGAIN, and does not block, if the descriptor is non-blocking.
  int (*get_cm_event)(rdma_event_channel* channel, rdma_cm_event** event);
  // In network byte order.
  uint16_t (*get_src_port)(rdma_cm_id* id);
  int (*listen)(rdma_cm_id* id, int backlog);
  int (*migrate_id)(rdma_cm_id* id, rdma_event_channel* channel);
  int (*reject)(rdma_cm_id* id, const void* private_data,
                uint8_t private_data_len);
  int (*resolve_addr)(rdma_cm_id* id, sockaddr* source, sockaddr* destination,
                      int timeout_ms);
  int (*resolve_route)(rdma_cm_id* id, int timeout_ms);
  int (*set_option)(rdma_cm_id* id, int level, int optname, void* optval,
                    size_t optlen);
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_VERBS_CM_OPS_H_
