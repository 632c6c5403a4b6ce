#include "transport/soft/cm/cm_ops.h"

#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "transport/soft/cm/cm_channel.h"
#include "transport/soft/cm/cm_endpoint.h"
#include "transport/soft/cm/connection_manager.h"

namespace verbena::soft {
namespace {

ConnectionManager& Manager(rdma_cm_id* id) {
  return *CmEndpoint::From(id)->manager;
}

int Accept(rdma_cm_id* id, rdma_conn_param* parameters) {
  return CmResult(Manager(id).Accept(*CmEndpoint::From(id), parameters));
}

int AckCmEvent(rdma_cm_event* event) {
  if (event == nullptr) return CmResult(EINVAL);
  CmEventRecord* const record = CmEventRecord::From(event);
  record->owner->manager->events().Ack(record);
  return 0;
}

int BindAddr(rdma_cm_id* id, sockaddr* address) {
  return CmResult(Manager(id).BindAddr(
      *CmEndpoint::From(id), base::SocketAddress::FromSockaddr(address)));
}

int Connect(rdma_cm_id* id, rdma_conn_param* parameters) {
  return CmResult(Manager(id).Connect(*CmEndpoint::From(id), parameters));
}

rdma_event_channel* CreateEventChannel() {
  return CmChannel::Create(&ConnectionManager::Get()).release();
}

int CreateId(rdma_event_channel* channel, rdma_cm_id** id, void* context,
             rdma_port_space port_space) {
  // Synchronous identifiers, which have no channel, are made by CmLibrary
  // alone.
  if (channel == nullptr) return CmResult(EINVAL);
  CmEndpoint* created = nullptr;
  const int error = CmChannel::From(channel)->manager().CreateId(
      *CmChannel::From(channel), context, port_space, created);
  if (error == 0) *id = created;
  return CmResult(error);
}

int CreateQp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attributes) {
  return CmResult(Manager(id).CreateQp(*CmEndpoint::From(id), pd, attributes));
}

void DestroyEventChannel(rdma_event_channel* channel) {
  std::unique_ptr<CmChannel> owned(CmChannel::From(channel));
  ConnectionManager& manager = owned->manager();
  manager.events().DestroyChannel(std::move(owned));
}

int DestroyId(rdma_cm_id* id) {
  Manager(id).DestroyId(*CmEndpoint::From(id));
  return 0;
}

void DestroyQp(rdma_cm_id* id) { Manager(id).DestroyQp(*CmEndpoint::From(id)); }

int Disconnect(rdma_cm_id* id) {
  return CmResult(Manager(id).Disconnect(*CmEndpoint::From(id)));
}

int GetCmEvent(rdma_event_channel* channel, rdma_cm_event** event) {
  CmChannel& from = *CmChannel::From(channel);
  return CmResult(from.manager().events().Get(from, *event));
}

uint16_t GetSrcPort(rdma_cm_id* id) {
  return htons(CmEndpoint::From(id)->Local().port());
}

int Listen(rdma_cm_id* id, int backlog) {
  return CmResult(Manager(id).Listen(*CmEndpoint::From(id), backlog));
}

int MigrateId(rdma_cm_id* id, rdma_event_channel* channel) {
  if (channel == nullptr) return CmResult(EINVAL);
  Manager(id).events().Migrate(*CmEndpoint::From(id),
                               *CmChannel::From(channel));
  return 0;
}

int Reject(rdma_cm_id* id, const void* private_data, uint8_t private_data_len) {
  return CmResult(Manager(id).Reject(*CmEndpoint::From(id), private_data,
                                     private_data_len));
}

// Nobody else is asked, so there is nothing for the timeout to end.
int ResolveAddr(rdma_cm_id* id, sockaddr* source, sockaddr* destination,
                int /*timeout_ms*/) {
  return CmResult(Manager(id).ResolveAddr(
      *CmEndpoint::From(id), base::SocketAddress::FromSockaddr(source),
      base::SocketAddress::FromSockaddr(destination)));
}

int ResolveRoute(rdma_cm_id* id, int /*timeout_ms*/) {
  return CmResult(Manager(id).ResolveRoute(*CmEndpoint::From(id)));
}

int SetOption(rdma_cm_id* id, int level, int optname, void* optval,
              size_t optlen) {
  return CmResult(Manager(id).SetOption(*CmEndpoint::From(id), level, optname,
                                        optval, optlen));
}

}  // namespace

int CmResult(int error) {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

bool PeerUser(rdma_cm_id* id, uid_t* user) {
  const std::optional<uid_t> found =
      Manager(id).PeerUser(*CmEndpoint::From(id));
  if (found.has_value()) *user = *found;
  return found.has_value();
}

int InitQpAttr(rdma_cm_id* id, ibv_qp_attr* attributes, int* mask) {
  return CmResult(
      Manager(id).InitQpAttr(*CmEndpoint::From(id), *attributes, *mask));
}

int Establish(rdma_cm_id* id) {
  return CmResult(Manager(id).Establish(*CmEndpoint::From(id)));
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
