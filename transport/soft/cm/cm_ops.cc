#include "transport/soft/cm/cm_ops.h"

#include <cerrno>
#include <memory>
#include <optional>

#include "transport/soft/cm/cm_channel.h"
#include "transport/soft/cm/cm_endpoint.h"
#include "transport/soft/cm/connection_manager.h"

namespace verbena::soft {
namespace {

ConnectionManager& Manager() { return ConnectionManager::Get(); }

// Returns `error`, 0 or an errno, as the functions of librdmacm do.
int Result(int error) {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

int Accept(rdma_cm_id* id, rdma_conn_param* parameters) {
  return Result(Manager().Accept(*CmEndpoint::From(id), parameters));
}

int AckCmEvent(rdma_cm_event* event) {
  if (event == nullptr) return Result(EINVAL);
  Manager().events().Ack(CmEventRecord::From(event));
  return 0;
}

int BindAddr(rdma_cm_id* id, sockaddr* address) {
  return Result(Manager().BindAddr(*CmEndpoint::From(id),
                                   base::SocketAddress::FromSockaddr(address)));
}

int Connect(rdma_cm_id* id, rdma_conn_param* parameters) {
  return Result(Manager().Connect(*CmEndpoint::From(id), parameters));
}

rdma_event_channel* CreateEventChannel() {
  return CmChannel::Create().release();
}

int CreateId(rdma_event_channel* channel, rdma_cm_id** id, void* context,
             rdma_port_space port_space) {
  if (channel == nullptr) return Result(EINVAL);
  // The kernel's answer for port spaces that it does not support.
  if (port_space != RDMA_PS_TCP && port_space != RDMA_PS_UDP) {
    return Result(EPROTONOSUPPORT);
  }
  *id = Manager().CreateId(*CmChannel::From(channel), context, port_space);
  return 0;
}

int CreateQp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attributes) {
  return Result(Manager().CreateQp(*CmEndpoint::From(id), pd, attributes));
}

void DestroyEventChannel(rdma_event_channel* channel) {
  Manager().events().DestroyChannel(
      std::unique_ptr<CmChannel>(CmChannel::From(channel)));
}

int DestroyId(rdma_cm_id* id) {
  Manager().DestroyId(*CmEndpoint::From(id));
  return 0;
}

void DestroyQp(rdma_cm_id* id) { Manager().DestroyQp(*CmEndpoint::From(id)); }

int Disconnect(rdma_cm_id* id) {
  return Result(Manager().Disconnect(*CmEndpoint::From(id)));
}

int GetCmEvent(rdma_event_channel* channel, rdma_cm_event** event) {
  return Result(Manager().events().Get(*CmChannel::From(channel), *event));
}

uint16_t GetSrcPort(rdma_cm_id* id) {
  return htons(CmEndpoint::From(id)->Local().port());
}

int Listen(rdma_cm_id* id, int backlog) {
  return Result(Manager().Listen(*CmEndpoint::From(id), backlog));
}

int MigrateId(rdma_cm_id* id, rdma_event_channel* channel) {
  if (channel == nullptr) return Result(EINVAL);
  Manager().events().Migrate(*CmEndpoint::From(id), *CmChannel::From(channel));
  return 0;
}

int Reject(rdma_cm_id* id, const void* private_data, uint8_t private_data_len) {
  return Result(
      Manager().Reject(*CmEndpoint::From(id), private_data, private_data_len));
}

int ResolveAddr(rdma_cm_id* id, sockaddr* source, sockaddr* destination,
                int /*timeout_ms*/) {
  return Result(Manager().ResolveAddr(
      *CmEndpoint::From(id), base::SocketAddress::FromSockaddr(source),
      base::SocketAddress::FromSockaddr(destination)));
}

int ResolveRoute(rdma_cm_id* id, int /*timeout_ms*/) {
  return Result(Manager().ResolveRoute(*CmEndpoint::From(id)));
}

int SetOption(rdma_cm_id* id, int level, int optname, void* optval,
              size_t optlen) {
  return Result(Manager().SetOption(*CmEndpoint::From(id), level, optname,
                                    optval, optlen));
}

}  // namespace

bool PeerUser(rdma_cm_id* id, uid_t* user) {
  const std::optional<uid_t> found = Manager().PeerUser(*CmEndpoint::From(id));
  if (found.has_value()) *user = *found;
  return found.has_value();
}

int JoinMulticast(rdma_cm_id* id, sockaddr* group, void* context) {
  return Result(Manager().JoinMulticast(
      *CmEndpoint::From(id), base::SocketAddress::FromSockaddr(group), false,
      context));
}

int JoinMulticastEx(rdma_cm_id* id, rdma_cm_join_mc_attr_ex* attributes,
                    void* context) {
  constexpr uint32_t kAll = RDMA_CM_JOIN_MC_ATTR_RESERVED - 1;
  if ((attributes->comp_mask & ~kAll) != 0 ||
      (attributes->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) == 0 ||
      (attributes->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) == 0) {
    return Result(EINVAL);
  }
  return Result(Manager().JoinMulticast(
      *CmEndpoint::From(id),
      base::SocketAddress::FromSockaddr(attributes->addr),
      attributes->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
      context));
}

int InitQpAttr(rdma_cm_id* id, ibv_qp_attr* attributes, int* mask) {
  return Result(
      Manager().InitQpAttr(*CmEndpoint::From(id), *attributes, *mask));
}

int Establish(rdma_cm_id* id) {
  return Result(Manager().Establish(*CmEndpoint::From(id)));
}

int LeaveMulticast(rdma_cm_id* id, sockaddr* group) {
  return Result(Manager().LeaveMulticast(
      *CmEndpoint::From(id), base::SocketAddress::FromSockaddr(group)));
}

transport::CmOps SoftCmOps() {
  return {
      .accept = Accept,
      .ack_cm_event = AckCmEvent,
      .bind_addr = BindAddr,
      .connect = Connect,
      .create_event_channel = CreateEventChannel,
      .create_id = CreateId,
      .create_qp = CreateQp,
      .destroy_event_channel = DestroyEventChannel,
      .destroy_id = DestroyId,
      .destroy_qp = DestroyQp,
      .disconnect = Disconnect,
      .get_cm_event = GetCmEvent,
      .get_src_port = GetSrcPort,
      .listen = Listen,
      .migrate_id = MigrateId,
      .reject = Reject,
      .resolve_addr = ResolveAddr,
      .resolve_route = ResolveRoute,
      .set_option = SetOption,
  };
}

}  // namespace verbena::soft
