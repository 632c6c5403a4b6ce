// librdmacm: identifiers, connections and their queues. All of them are the
// software device's or none is (SoftConnects).

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <cerrno>

#include "transport/soft/preload/cm_library.h"
#include "transport/soft/preload/next_definition.h"
#include "transport/soft/preload/next_provider.h"
#include "transport/soft/preload/soft_objects.h"

namespace verbena::soft {
namespace {

CmLibrary& Library() {
  static auto* library = new CmLibrary(Soft());
  return *library;
}

// For the calls to which CmLibrary has nothing to add.
const transport::CmOps& Cm() {
  return SoftConnects() ? Soft().cm : NextProvider().cm;
}

}  // namespace

extern "C" {

rdma_event_channel* rdma_create_event_channel() {
  return Cm().create_event_channel();
}

void rdma_destroy_event_channel(rdma_event_channel* channel) {
  Cm().destroy_event_channel(channel);
}

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context,
                   rdma_port_space port_space) {
  return SoftConnects()
             ? Library().CreateId(channel, id, context, port_space)
             : NextProvider().cm.create_id(channel, id, context, port_space);
}

int rdma_destroy_id(rdma_cm_id* id) {
  return SoftConnects() ? Library().DestroyId(id)
                        : NextProvider().cm.destroy_id(id);
}

int rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  return SoftConnects() ? Library().MigrateId(id, channel)
                        : NextProvider().cm.migrate_id(id, channel);
}

int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  return SoftConnects() ? Library().GetCmEvent(channel, event)
                        : NextProvider().cm.get_cm_event(channel, event);
}

int rdma_ack_cm_event(rdma_cm_event* event) { return Cm().ack_cm_event(event); }

int rdma_set_option(rdma_cm_id* id, int level, int optname, void* optval,
                    size_t optlen) {
  return Cm().set_option(id, level, optname, optval, optlen);
}

int rdma_bind_addr(rdma_cm_id* id, sockaddr* address) {
  return SoftConnects() ? Library().BindAddr(id, address)
                        : NextProvider().cm.bind_addr(id, address);
}

int rdma_resolve_addr(rdma_cm_id* id, sockaddr* source, sockaddr* destination,
                      int timeout_ms) {
  return SoftConnects()
             ? Library().ResolveAddr(id, source, destination, timeout_ms)
             : NextProvider().cm.resolve_addr(id, source, destination,
                                              timeout_ms);
}

int rdma_resolve_route(rdma_cm_id* id, int timeout_ms) {
  return SoftConnects() ? Library().ResolveRoute(id, timeout_ms)
                        : NextProvider().cm.resolve_route(id, timeout_ms);
}

int rdma_listen(rdma_cm_id* id, int backlog) {
  return Cm().listen(id, backlog);
}

int rdma_connect(rdma_cm_id* id, rdma_conn_param* parameters) {
  return SoftConnects() ? Library().Connect(id, parameters)
                        : NextProvider().cm.connect(id, parameters);
}

int rdma_accept(rdma_cm_id* id, rdma_conn_param* parameters) {
  return SoftConnects() ? Library().Accept(id, parameters)
                        : NextProvider().cm.accept(id, parameters);
}

int rdma_reject(rdma_cm_id* id, const void* private_data,
                uint8_t private_data_len) {
  return Cm().reject(id, private_data, private_data_len);
}

int rdma_disconnect(rdma_cm_id* id) {
  return SoftConnects() ? Library().Disconnect(id)
                        : NextProvider().cm.disconnect(id);
}

int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attributes) {
  return SoftConnects() ? Library().CreateQp(id, pd, attributes)
                        : NextProvider().cm.create_qp(id, pd, attributes);
}

void rdma_destroy_qp(rdma_cm_id* id) {
  return SoftConnects() ? Library().DestroyQp(id)
                        : NextProvider().cm.destroy_qp(id);
}

int rdma_create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* attributes) {
  if (SoftConnects()) return Library().CreateSrq(id, pd, attributes);
  static const decltype(&rdma_create_srq) next =
      NextDefinition("rdma_create_srq");
  return next(id, pd, attributes);
}

void rdma_destroy_srq(rdma_cm_id* id) {
  if (SoftConnects()) return Library().DestroySrq(id);
  static const decltype(&rdma_destroy_srq) next =
      NextDefinition("rdma_destroy_srq");
  next(id);
}

int rdma_create_ep(rdma_cm_id** id, rdma_addrinfo* address, ibv_pd* pd,
                   ibv_qp_init_attr* attributes) {
  if (SoftConnects()) return Library().CreateEp(id, address, pd, attributes);
  static const decltype(&rdma_create_ep) next =
      NextDefinition("rdma_create_ep");
  return next(id, address, pd, attributes);
}

void rdma_destroy_ep(rdma_cm_id* id) {
  if (SoftConnects()) return Library().DestroyEp(id);
  static const decltype(&rdma_destroy_ep) next =
      NextDefinition("rdma_destroy_ep");
  next(id);
}

int rdma_get_request(rdma_cm_id* listener, rdma_cm_id** id) {
  if (SoftConnects()) return Library().GetRequest(listener, id);
  static const decltype(&rdma_get_request) next =
      NextDefinition("rdma_get_request");
  return next(listener, id);
}

}  // extern "C"

}  // namespace verbena::soft
