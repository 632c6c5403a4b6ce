#include "transport/soft/cm/connection_manager.h"

#include <cerrno>
#include <cstring>
#include <memory>

#include "transport/base/check.h"
#include "transport/soft/queues/verbs_handle.h"
#include "transport/soft/verbs/verbs_table.h"

namespace verbena::soft {

ConnectionManager& ConnectionManager::Get() {
  static auto* manager =
      new ConnectionManager(SoftDevice::Get(), SoftVerbsOps());
  return *manager;
}

ConnectionManager::ConnectionManager(SoftDevice& device,
                                     const transport::VerbsOps& verbs)
    : engine_(device.engine()),
      verbs_(verbs),
      callbacks_(engine_, mutex_),
      addresses_(device, verbs_, events_),
      connections_(device, callbacks_, addresses_, events_) {}

int ConnectionManager::CreateId(CmChannel& channel, void* context,
                                rdma_port_space port_space,
                                CmEndpoint*& created) {
  PortSpace* const space = port_space == RDMA_PS_TCP   ? &connections_
                           : port_space == RDMA_PS_UDP ? services_.get()
                                                       : nullptr;
  if (space == nullptr) return EPROTONOSUPPORT;
  const std::shared_ptr<CmEndpoint> endpoint = space->MakeEndpoint();
  endpoint->manager = this;
  endpoint->context = context;
  events_.Add(*endpoint, channel);
  created = endpoint.get();
  return 0;
}

// Waits for acknowledgements without the lock: whoever is to acknowledge may be
// in a call that needs it.
void ConnectionManager::DestroyId(CmEndpoint& endpoint) {
  const std::shared_ptr<CmEndpoint> keep = endpoint.shared_from_this();
  {
    ClosingSockets closing(engine_);  // Destroyed after the lock.
    const EndpointsLock lock(mutex_);
    Destroy(endpoint, closing);
  }
  events_.AwaitAcks(endpoint);
}

// Children whose request the user has not read go with their listener, because
// nobody else knows them.
void ConnectionManager::Destroy(CmEndpoint& endpoint, ClosingSockets& closing) {
  endpoint.port_space->End(endpoint, closing);
  for (const std::shared_ptr<CmEndpoint>& child : events_.Remove(endpoint)) {
    Destroy(*child, closing);
  }
}

// Looks at the length first, because it says how much may be read at `value`.
int ConnectionManager::SetOption(CmEndpoint& endpoint, int level, int option,
                                 const void* value, size_t length) {
  const EndpointsLock lock(mutex_);
  if (level != RDMA_OPTION_ID) return ENOSYS;
  const bool is_int =
      option == RDMA_OPTION_ID_REUSEADDR || option == RDMA_OPTION_ID_AFONLY;
  if (length != (is_int ? sizeof(int) : sizeof(uint8_t))) return EINVAL;
  int number = 0;
  std::memcpy(&number, value, length);  // Little-endian hosts only.
  switch (option) {
    case RDMA_OPTION_ID_TOS:
      endpoint.traffic_class = static_cast<uint8_t>(number);
      return 0;
    case RDMA_OPTION_ID_REUSEADDR:  // Connections that ended hold no address.
      return 0;
    case RDMA_OPTION_ID_AFONLY:
      if (endpoint.state != CmState::kIdle) return EINVAL;
      endpoint.ipv6_only = number != 0;
      return 0;
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      if (number < 1 || number > 31) return EINVAL;
      endpoint.ack_timeout = static_cast<uint8_t>(number);
      return 0;
    default:
      return ENOSYS;
  }
}

int ConnectionManager::BindAddr(CmEndpoint& endpoint,
                                const base::SocketAddress& address) {
  const EndpointsLock lock(mutex_);
  return addresses_.Bind(
      endpoint, address,
      endpoint.ipv6_only ? BindPurpose::kListenIpv6Only : BindPurpose::kListen);
}

int ConnectionManager::ResolveAddr(CmEndpoint& endpoint,
                                   const base::SocketAddress& source,
                                   const base::SocketAddress& destination) {
  ClosingSockets closing(engine_);
  const EndpointsLock lock(mutex_);
  return addresses_.ResolveAddr(endpoint, source, destination, closing);
}

int ConnectionManager::ResolveRoute(CmEndpoint& endpoint) {
  const EndpointsLock lock(mutex_);
  return addresses_.ResolveRoute(endpoint);
}

// Makes the queue pair with the same verb as its users do, and has it brought
// to its first state by the port space.
int ConnectionManager::CreateQp(CmEndpoint& endpoint, ibv_pd* pd,
                                ibv_qp_init_attr* attributes) {
  const EndpointsLock lock(mutex_);
  if (endpoint.verbs == nullptr || endpoint.qp != nullptr || pd == nullptr ||
      pd->context != endpoint.verbs ||
      attributes->qp_type != endpoint.qp_type) {
    return EINVAL;
  }
  ibv_qp* qp = verbs_.create_qp(pd, attributes);
  if (qp == nullptr) return errno;
  if (const int error = endpoint.port_space->PrepareQp(qp); error != 0) {
    verbs_.destroy_qp(qp);
    return error;
  }
  endpoint.qp = qp;
  endpoint.pd = pd;
  // There are programs that destroy it with destroy_qp, without the identifier.
  static_cast<QueuePairHandle*>(qp)->before_destroy =
      [this, qp, weak = endpoint.weak_from_this()] {
        const std::shared_ptr<CmEndpoint> owner = weak.lock();
        if (owner == nullptr) return;
        const EndpointsLock owner_lock(mutex_);
        if (owner->qp == qp) LetGoOfQp(*owner);
      };
  return 0;
}

void ConnectionManager::DestroyQp(CmEndpoint& endpoint) {
  ibv_qp* qp = nullptr;
  {
    const EndpointsLock lock(mutex_);
    qp = endpoint.qp;
    if (qp == nullptr) return;
    LetGoOfQp(endpoint);
  }
  // Without the lock: it may wait for a callback on the engine's thread, which
  // may wait for the lock.
  const int error = verbs_.destroy_qp(qp);
  CHECK_EQ(error, 0) << "destroy_qp: " << std::strerror(error);
}

void ConnectionManager::LetGoOfQp(CmEndpoint& endpoint) {
  endpoint.port_space->LetGoOfQp(endpoint);
  endpoint.qp = nullptr;
  endpoint.pd = nullptr;
}

void ConnectionManager::WaitForListeners() {
  const EndpointsLock lock(mutex_);
  connections_.WaitForListeners();
}

// Starts the engine first, while a failure of that can still be told to the
// user.
int ConnectionManager::Listen(CmEndpoint& endpoint, int backlog) {
  if (const int error = engine_.Start(); error != 0) return error;
  const EndpointsLock lock(mutex_);
  // As with the kernel's manager, a listener that is not bound gets a free port
  // of all addresses.
  if (endpoint.state == CmState::kIdle) {
    const int error = addresses_.Bind(
        endpoint, base::SocketAddress::Any(AF_INET, 0), BindPurpose::kListen);
    if (error != 0) return error;
  }
  if (endpoint.state != CmState::kBound) return EINVAL;
  if (const int error = endpoint.port_space->Listen(endpoint); error != 0) {
    return error;
  }
  // Any other number stands for kBacklogMax, which is there already.
  if (backlog > 0 && backlog < kBacklogMax) {
    endpoint.listening.backlog = backlog;
  }
  endpoint.Transition(CmState::kListening);
  return 0;
}

int ConnectionManager::Connect(CmEndpoint& endpoint,
                               const rdma_conn_param* parameters) {
  if (const int error = engine_.Start(); error != 0) return error;
  ClosingSockets closing(engine_);
  const EndpointsLock lock(mutex_);
  return endpoint.port_space->Connect(endpoint, parameters, closing);
}

int ConnectionManager::Accept(CmEndpoint& endpoint,
                              const rdma_conn_param* parameters) {
  const EndpointsLock lock(mutex_);
  return endpoint.port_space->Accept(endpoint, parameters);
}

int ConnectionManager::Reject(CmEndpoint& endpoint, const void* private_data,
                              uint8_t length) {
  const EndpointsLock lock(mutex_);
  return endpoint.port_space->Reject(endpoint, private_data, length);
}

int ConnectionManager::Disconnect(CmEndpoint& endpoint) {
  const EndpointsLock lock(mutex_);
  return endpoint.port_space->Disconnect(endpoint);
}

int ConnectionManager::Establish(CmEndpoint& endpoint) {
  const EndpointsLock lock(mutex_);
  return endpoint.port_space->Establish(endpoint);
}

int ConnectionManager::InitQpAttr(CmEndpoint& endpoint, ibv_qp_attr& attributes,
                                  int& mask) {
  const EndpointsLock lock(mutex_);
  return endpoint.port_space->InitQpAttr(endpoint, attributes, mask);
}

std::optional<uid_t> ConnectionManager::PeerUser(CmEndpoint& endpoint) {
  const EndpointsLock lock(mutex_);
  return endpoint.connection.peer_user;
}

}  // namespace verbena::soft
