#include "transport/soft/cm/connection_manager.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/base/check.h"
#include "transport/soft/cm/cm_queue_pair.h"
#include "transport/soft/connected/queue_pair.h"
#include "transport/soft/queues/verbs_handle.h"
#include "transport/soft/remote/relay.h"
#include "transport/soft/remote/tcp_socket.h"
#include "transport/soft/verbs/verbs_table.h"

namespace verbena::soft {
namespace {

// More than a program destroys in the moment in which a thread of its is late.
constexpr size_t kDestroyedChannelsMax = 16;

}  // namespace

ConnectionManager& ConnectionManager::Get() {
  static auto* manager = new ConnectionManager(SoftDevice::Get());
  return *manager;
}

ConnectionManager::ConnectionManager(SoftDevice& device)
    : device_(device), engine_(device.engine()), verbs_(SoftVerbsOps()) {}

ConnectionManager::Retired::~Retired() {
  for (const base::UniqueFd& fd : fds_) engine_.Unwatch(fd.get());
  for (const int fd : relayed_) Relay::Finish(fd);
}

void ConnectionManager::Retired::Add(base::UniqueFd fd) {
  if (fd.valid()) fds_.push_back(std::move(fd));
}

int ConnectionManager::GetEvent(CmChannel& channel, rdma_cm_event*& event) {
  while (true) {
    pollfd descriptor = {.fd = -1, .events = POLLIN, .revents = 0};
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (channel.closed()) break;
      if (std::unique_ptr<CmEventRecord> record = channel.Pop()) {
        ++record->owner->events_unacked;
        if (record->child != nullptr) {
          --record->owner->requests_unread;
          // From here on it is the user's.
          record->child->user_reference = record->child;
        }
        event = record.release();
        return 0;
      }
      const int flags = ::fcntl(channel.fd, F_GETFL);
      if (flags < 0) return errno;
      if ((flags & O_NONBLOCK) != 0) return EAGAIN;
      descriptor.fd = channel.fd;
    }
    if (::poll(&descriptor, 1, -1) < 0) return errno;
  }
  for (;;) ::pause();
}

void ConnectionManager::DestroyChannel(std::unique_ptr<CmChannel> channel) {
  const int flags = ::fcntl(channel->fd, F_GETFL);
  // Nobody can be waiting for one that does not block.
  if (flags < 0 || (flags & O_NONBLOCK) != 0) return;
  std::deque<std::unique_ptr<CmEventRecord>> unread;
  std::lock_guard<std::mutex> lock(mutex_);
  unread = channel->Close();
  destroyed_channels_.push_back(std::move(channel));
  if (destroyed_channels_.size() > kDestroyedChannelsMax) {
    destroyed_channels_.pop_front();
  }
}

void ConnectionManager::AckEvent(CmEventRecord* event) {
  const std::unique_ptr<CmEventRecord> record(event);
  std::lock_guard<std::mutex> lock(mutex_);
  if (--record->owner->events_unacked == 0) acked_.notify_all();
}

CmEndpoint* ConnectionManager::CreateId(CmChannel& channel, void* context,
                                        rdma_port_space port_space) {
  auto endpoint = std::make_shared<CmEndpoint>();
  endpoint->channel = &channel;
  endpoint->context = context;
  endpoint->ps = port_space;
  endpoint->qp_type = port_space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
  endpoint->user_reference = endpoint;
  return endpoint.get();
}

void ConnectionManager::DestroyId(CmEndpoint& endpoint) {
  const std::shared_ptr<CmEndpoint> keep = endpoint.shared_from_this();
  {
    Retired retired(engine_);
    std::lock_guard<std::mutex> lock(mutex_);
    Destroy(endpoint, retired);
  }
  std::unique_lock<std::mutex> lock(mutex_);
  acked_.wait(lock, [&] { return endpoint.events_unacked == 0; });
}

void ConnectionManager::Destroy(CmEndpoint& endpoint, Retired& retired) {
  EndDatagrams(endpoint);
  if (endpoint.state == CmState::kRequested && endpoint.ps == RDMA_PS_UDP) {
    Answer(endpoint, kServiceRejected, nullptr);
  } else if (endpoint.state == CmState::kRequested) {
    // Nobody will answer the peer any more. It sees what a NIC's would see.
    CmMessage reject = {.type = CmMessageType::kReject,
                        .reject_reason = kConsumerReject};
    SendCmMessage(endpoint.socket.get(), reject);
  }
  // The user should have destroyed it. It must not ring a closed socket.
  if (endpoint.qp != nullptr && endpoint.ps != RDMA_PS_UDP) {
    QueuePair::From(endpoint.qp)->DetachLink();
  }
  for (const std::unique_ptr<CmEventRecord>& event :
       CmChannel::From(endpoint.channel)->Remove(endpoint)) {
    if (event->child != nullptr) Destroy(*event->child, retired);
  }
  if (endpoint.relayed && endpoint.socket.valid()) {
    retired.Finish(endpoint.socket.get());
  }
  retired.Add(std::move(endpoint.socket));
  for (auto& [key, half_open] : endpoint.half_open) {
    retired.Add(std::move(half_open.socket));
  }
  endpoint.address_holder.Reset();
  endpoint.half_open.clear();
  endpoint.link.reset();
  endpoint.user_reference = nullptr;
}

void ConnectionManager::MigrateId(CmEndpoint& endpoint, CmChannel& channel) {
  std::unique_lock<std::mutex> lock(mutex_);
  // An event that was read and is not acknowledged is still the old channel's.
  acked_.wait(lock, [&] { return endpoint.events_unacked == 0; });
  for (std::unique_ptr<CmEventRecord>& event :
       CmChannel::From(endpoint.channel)->Remove(endpoint)) {
    if (event->child != nullptr) event->child->channel = &channel;
    channel.Push(std::move(event));
  }
  endpoint.channel = &channel;
}

int ConnectionManager::SetOption(CmEndpoint& endpoint, int level, int option,
                                 const void* value, size_t length) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (level != RDMA_OPTION_ID) return ENOSYS;
  const bool is_int =
      option == RDMA_OPTION_ID_REUSEADDR || option == RDMA_OPTION_ID_AFONLY;
  if (length != (is_int ? sizeof(int) : sizeof(uint8_t))) return EINVAL;
  int number = 0;
  std::memcpy(&number, value, length);  // Little-endian hosts only.
  switch (option) {
    case RDMA_OPTION_ID_TOS:        // A hint; TCP is not told.
    case RDMA_OPTION_ID_REUSEADDR:  // Old connections hold no address here.
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
                                base::SocketAddress address) {
  std::lock_guard<std::mutex> lock(mutex_);
  return Bind(
      endpoint, address,
      endpoint.ipv6_only ? BindPurpose::kListenIpv6Only : BindPurpose::kListen);
}

int ConnectionManager::Bind(CmEndpoint& endpoint, base::SocketAddress address,
                            BindPurpose purpose) {
  if (endpoint.state != CmState::kIdle) return EINVAL;
  if (address.empty()) return EAFNOSUPPORT;
  if (!address.IsAny() && !IsLocalAddress(address)) return EADDRNOTAVAIL;
  if (const int error =
          endpoint.ps == RDMA_PS_UDP
              ? OpenCmDatagramSocket(address, endpoint.socket)
              : OpenBoundSocket(address, purpose, endpoint.socket);
      error != 0) {
    return error;
  }
  endpoint.SetLocal(address);
  // A wildcard belongs to no device: connections tell which one they are on.
  if (!address.IsAny()) {
    endpoint.verbs = Context();
    endpoint.port_num = 1;
  }
  endpoint.Transition(CmState::kBound);
  return 0;
}

ibv_context* ConnectionManager::Context() {
  // librdmacm, too, opens each device once and for good.
  if (context_ == nullptr) context_ = device_.OpenContext();
  return context_;
}

int ConnectionManager::ResolveAddr(CmEndpoint& endpoint,
                                   base::SocketAddress source,
                                   base::SocketAddress destination) {
  Retired retired(engine_);
  std::lock_guard<std::mutex> lock(mutex_);
  if (endpoint.state != CmState::kIdle && endpoint.state != CmState::kBound) {
    return EINVAL;
  }
  if (destination.empty()) return EAFNOSUPPORT;
  if (destination.IsAny()) {
    destination =
        base::SocketAddress::Loopback(destination.family(), destination.port());
  }
  if (endpoint.ps == RDMA_PS_UDP) {
    return ResolveDatagramAddr(endpoint, source, destination);
  }
  endpoint.SetPeer(destination);
  const bool remote = !IsLocalAddress(destination);
  base::SocketAddress own;
  if (!remote) {
    own = SourceFor(destination);
  } else if (device_.network().enabled()) {
    own = RouteSource(destination);
  }
  if (own.empty()) {
    Post(endpoint, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH);
    return 0;
  }
  if (source.empty() || source.IsAny()) {
    const uint16_t port = source.port();
    source = own;
    source.set_port(port);
  }
  if (endpoint.state == CmState::kIdle) {
    const int error = Bind(endpoint, source, BindPurpose::kConnect);
    if (error != 0) return error;
  } else if (endpoint.Local().IsAny()) {
    // The peer sees the name of the socket, which must be an address.
    source.set_port(endpoint.Local().port());
    base::UniqueFd socket;
    const int error = OpenBoundSocket(source, BindPurpose::kConnect, socket);
    if (error != 0) return error;
    retired.Add(std::exchange(endpoint.socket, std::move(socket)));
    endpoint.SetLocal(source);
  }
  endpoint.verbs = Context();
  if (endpoint.verbs == nullptr) return errno;
  endpoint.port_num = 1;
  endpoint.Transition(CmState::kAddressResolved);
  Post(endpoint, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
  return 0;
}

int ConnectionManager::ResolveRoute(CmEndpoint& endpoint) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (endpoint.state != CmState::kAddressResolved) return EINVAL;
  endpoint.Transition(CmState::kRouteResolved);
  Post(endpoint, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
  return 0;
}

int ConnectionManager::CreateQp(CmEndpoint& endpoint, ibv_pd* pd,
                                ibv_qp_init_attr* attributes) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (endpoint.verbs == nullptr || endpoint.qp != nullptr || pd == nullptr ||
      pd->context != endpoint.verbs ||
      attributes->qp_type != endpoint.qp_type) {
    return EINVAL;
  }
  ibv_qp* qp = verbs_.create_qp(pd, attributes);
  if (qp == nullptr) return errno;
  if (const int error =
          endpoint.ps == RDMA_PS_UDP ? MoveDatagramToReady(qp) : MoveToInit(qp);
      error != 0) {
    verbs_.destroy_qp(qp);
    return error;
  }
  endpoint.qp = qp;
  endpoint.pd = pd;
  // There are programs that destroy it as one of their own.
  static_cast<QueuePairHandle*>(qp)->before_destroy =
      [this, qp, weak = endpoint.weak_from_this()] {
        const std::shared_ptr<CmEndpoint> owner = weak.lock();
        if (owner == nullptr) return;
        std::lock_guard<std::mutex> owner_lock(mutex_);
        if (owner->qp == qp) LetGoOfQp(*owner);
      };
  return 0;
}

void ConnectionManager::DestroyQp(CmEndpoint& endpoint) {
  ibv_qp* qp = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    qp = endpoint.qp;
    if (qp == nullptr) return;
    LetGoOfQp(endpoint);
  }
  // Not under the mutex: it may wait for the engine's thread.
  const int error = verbs_.destroy_qp(qp);
  CHECK_EQ(error, 0) << "destroy_qp: " << std::strerror(error);
}

void ConnectionManager::LetGoOfQp(CmEndpoint& endpoint) {
  if (endpoint.ps == RDMA_PS_UDP) {
    EndDatagrams(endpoint);
  } else {
    QueuePair::From(endpoint.qp)->DetachLink();
  }
  endpoint.qp = nullptr;
  endpoint.pd = nullptr;
}

void ConnectionManager::Post(CmEndpoint& endpoint, rdma_cm_event_type type,
                             int status) {
  Post(endpoint, type, status, CmMessage(), 0);
}

void ConnectionManager::Post(CmEndpoint& endpoint, rdma_cm_event_type type,
                             int status, const CmMessage& message,
                             uint8_t data_bytes,
                             std::shared_ptr<CmEndpoint> child) {
  auto event = std::make_unique<CmEventRecord>();
  event->event = type;
  event->status = status;
  event->id = &endpoint;
  event->owner = endpoint.shared_from_this();
  if (child != nullptr) {
    event->id = child.get();
    event->listen_id = &endpoint;
    event->child = std::move(child);
  }
  rdma_conn_param& parameters = event->param.conn;
  // Turned round: what the peer can start is what this side must answer.
  parameters.responder_resources = message.initiator_depth;
  parameters.initiator_depth = message.responder_resources;
  parameters.retry_count = message.retry_count;
  parameters.rnr_retry_count = message.rnr_retry_count;
  parameters.qp_num = message.qp_num;
  if (data_bytes != 0) {
    event->private_data = message.private_data;
    parameters.private_data = event->private_data.data();
    parameters.private_data_len = data_bytes;
  }
  CmChannel::From(endpoint.channel)->Push(std::move(event));
}

}  // namespace verbena::soft
