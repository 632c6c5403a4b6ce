// librdmacm: questions about addresses, devices and identifiers, and the calls
// that the software device refuses.

#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <cerrno>

#include "transport/soft/cm/cm_ops.h"
#include "transport/soft/preload/address_info.h"
#include "transport/soft/preload/next_definition.h"
#include "transport/soft/preload/next_provider.h"
#include "transport/soft/preload/soft_objects.h"

namespace verbena::soft {
namespace {

int Refuse() {
  errno = EOPNOTSUPP;
  return -1;
}

__be16 PortOf(const sockaddr& address) {
  switch (address.sa_family) {
    case AF_INET:
      return reinterpret_cast<const sockaddr_in&>(address).sin_port;
    case AF_INET6:
      return reinterpret_cast<const sockaddr_in6&>(address).sin6_port;
    default:
      return 0;
  }
}

// The context that identifiers of the software device show, found as any user
// finds it: by binding one.
ibv_context* FindContext() {
  const transport::CmOps& cm = Soft().cm;
  rdma_event_channel* channel = cm.create_event_channel();
  if (channel == nullptr) return nullptr;
  ibv_context* context = nullptr;
  rdma_cm_id* id = nullptr;
  if (cm.create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0) {
    sockaddr_in loopback = {};
    loopback.sin_family = AF_INET;
    loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (cm.bind_addr(id, reinterpret_cast<sockaddr*>(&loopback)) == 0) {
      context = id->verbs;
    }
    cm.destroy_id(id);
  }
  cm.destroy_event_channel(channel);
  return context;
}

}  // namespace

extern "C" {

int rdma_getaddrinfo(const char* node, const char* service,
                     const rdma_addrinfo* hints, rdma_addrinfo** result) {
  if (SoftConnects()) return GetAddressInfo(node, service, hints, result);
  static const decltype(&rdma_getaddrinfo) next =
      NextDefinition("rdma_getaddrinfo");
  return next(node, service, hints, result);
}

void rdma_freeaddrinfo(rdma_addrinfo* list) {
  if (SoftConnects()) return FreeAddressInfo(list);
  static const decltype(&rdma_freeaddrinfo) next =
      NextDefinition("rdma_freeaddrinfo");
  next(list);
}

ibv_context** rdma_get_devices(int* count) {
  if (!SoftConnects()) {
    static const decltype(&rdma_get_devices) next =
        NextDefinition("rdma_get_devices");
    return next(count);
  }
  ibv_context* context = FindContext();
  if (context == nullptr) return nullptr;
  if (count != nullptr) *count = 1;
  return new ibv_context* [2] { context, nullptr };
}

void rdma_free_devices(ibv_context** list) {
  if (SoftConnects()) {
    delete[] list;
    return;
  }
  static const decltype(&rdma_free_devices) next =
      NextDefinition("rdma_free_devices");
  next(list);
}

__be16 rdma_get_src_port(rdma_cm_id* id) {
  return SoftConnects() ? Soft().cm.get_src_port(id)
                        : NextProvider().cm.get_src_port(id);
}

__be16 rdma_get_dst_port(rdma_cm_id* id) {
  return PortOf(id->route.addr.dst_addr);
}

int rdma_create_srq_ex(rdma_cm_id* id, ibv_srq_init_attr_ex* attributes) {
  if (SoftConnects()) {
    if (attributes->comp_mask & IBV_SRQ_INIT_ATTR_TYPE &&
        attributes->srq_type != IBV_SRQT_BASIC) {
      return Refuse();
    }
    ibv_pd* pd =
        attributes->comp_mask & IBV_SRQ_INIT_ATTR_PD ? attributes->pd : nullptr;
    // The extended attributes begin with the ordinary ones.
    return rdma_create_srq(id, pd,
                           reinterpret_cast<ibv_srq_init_attr*>(attributes));
  }
  static const decltype(&rdma_create_srq_ex) next =
      NextDefinition("rdma_create_srq_ex");
  return next(id, attributes);
}

// Takes only the attributes that rdma_create_qp has too; if others are refused,
// programs fall back to that.
int rdma_create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* attributes) {
  if (SoftConnects()) {
    if ((attributes->comp_mask & ~IBV_QP_INIT_ATTR_PD) != 0) return Refuse();
    // Here too they begin with the ordinary ones.
    return rdma_create_qp(id,
                          attributes->comp_mask != 0 ? attributes->pd : nullptr,
                          reinterpret_cast<ibv_qp_init_attr*>(attributes));
  }
  static const decltype(&rdma_create_qp_ex) next =
      NextDefinition("rdma_create_qp_ex");
  return next(id, attributes);
}

int rdma_init_qp_attr(rdma_cm_id* id, ibv_qp_attr* attributes, int* mask) {
  if (SoftConnects()) return InitQpAttr(id, attributes, mask);
  static const decltype(&rdma_init_qp_attr) next =
      NextDefinition("rdma_init_qp_attr");
  return next(id, attributes, mask);
}

int rdma_establish(rdma_cm_id* id) {
  if (SoftConnects()) return Establish(id);
  static const decltype(&rdma_establish) next =
      NextDefinition("rdma_establish");
  return next(id);
}

int rdma_notify(rdma_cm_id* id, ibv_event_type event) {
  // rdma_notify() stands for a lost message of the peer, that it is ready. The
  // soft connection manager loses no message.
  if (SoftConnects()) return 0;
  static const decltype(&rdma_notify) next = NextDefinition("rdma_notify");
  return next(id, event);
}

int rdma_reject_ece(rdma_cm_id* id, const void* private_data,
                    uint8_t private_data_len) {
  if (SoftConnects()) {
    // Options of a vendor are not sent, so the two calls do the same.
    return Soft().cm.reject(id, private_data, private_data_len);
  }
  static const decltype(&rdma_reject_ece) next =
      NextDefinition("rdma_reject_ece");
  return next(id, private_data, private_data_len);
}

int rdma_set_local_ece(rdma_cm_id* id, ibv_ece* ece) {
  if (SoftConnects()) return Refuse();
  static const decltype(&rdma_set_local_ece) next =
      NextDefinition("rdma_set_local_ece");
  return next(id, ece);
}

int rdma_get_remote_ece(rdma_cm_id* id, ibv_ece* ece) {
  if (SoftConnects()) return Refuse();
  static const decltype(&rdma_get_remote_ece) next =
      NextDefinition("rdma_get_remote_ece");
  return next(id, ece);
}

}  // extern "C"

}  // namespace verbena::soft
