// Identifiers of the port space UDP: a service is asked for its queue pair, and
// groups are joined. Nothing is connected.

#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/soft/address/gid_table.h"
#include "transport/soft/address/global_route.h"
#include "transport/soft/base/datagram_socket.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/cm/connection_manager.h"
#include "transport/soft/remote/datagram_network.h"
#include "transport/soft/remote/tcp_socket.h"
#include "transport/soft/verbs/datagram_verbs.h"

namespace verbena::soft {
namespace {

// How long the other application may take to answer, and how often it is asked.
constexpr std::chrono::seconds kAnswerTimeout(5);
constexpr std::chrono::milliseconds kAskInterval(100);

// How long nobody may have the address that is asked: programs listen a moment
// after they have told their peers to come.
constexpr std::chrono::seconds kListenerPause(1);

// Messages taken in one callback, so that others have their turn.
constexpr int kReadBatch = 64;

// Questions that a listener remembers, so as not to take one for two.
constexpr size_t kQuestionsMax = 4096;

constexpr uint8_t kPort = 1;
constexpr uint8_t kHopLimit = 64;  // As the kernel sets it for a route.
constexpr uint8_t kGroupHopLimit = 1;

int Modify(ibv_qp* qp, const transport::VerbsOps& verbs, ibv_qp_state state,
           int mask) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = state;
  attributes.port_num = kPort;
  attributes.qkey = RDMA_UDP_QKEY;
  return verbs.modify_qp(qp, &attributes, IBV_QP_STATE | mask);
}

bool CopyData(const rdma_conn_param* parameters, size_t bytes_max,
              CmDatagram& datagram) {
  if (parameters == nullptr || parameters->private_data == nullptr) return true;
  if (parameters->private_data_len > bytes_max) return false;
  std::memcpy(datagram.private_data.data(), parameters->private_data,
              parameters->private_data_len);
  return true;
}

}  // namespace

int ConnectionManager::MoveDatagramToReady(ibv_qp* qp) {
  int error = Modify(qp, verbs_, IBV_QPS_INIT,
                     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
  if (error == 0) error = Modify(qp, verbs_, IBV_QPS_RTR, 0);
  if (error == 0) error = Modify(qp, verbs_, IBV_QPS_RTS, IBV_QP_SQ_PSN);
  return error;
}

int ConnectionManager::ResolveDatagramAddr(CmEndpoint& endpoint,
                                           base::SocketAddress source,
                                           base::SocketAddress destination) {
  endpoint.SetPeer(destination);
  if (source.empty() || source.IsAny()) {
    const uint16_t port = source.empty() ? 0 : source.port();
    source = endpoint.state == CmState::kBound && !endpoint.Local().IsAny()
                 ? endpoint.Local()
                 : RouteSource(destination);
    if (source.empty()) {
      Post(endpoint, RDMA_CM_EVENT_ADDR_ERROR, -ENETUNREACH);
      return 0;
    }
    source.set_port(port);
  }
  if (endpoint.state == CmState::kIdle) {
    const int error = Bind(endpoint, source, BindPurpose::kConnect);
    if (error != 0) return error;
  } else if (endpoint.Local().IsAny()) {
    source.set_port(endpoint.Local().port());
    endpoint.SetLocal(source);
  }
  endpoint.verbs = Context();
  if (endpoint.verbs == nullptr) return errno;
  endpoint.port_num = kPort;
  endpoint.Transition(CmState::kAddressResolved);
  Post(endpoint, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
  return 0;
}

void ConnectionManager::WatchDatagrams(CmEndpoint& endpoint) {
  engine_.Watch(endpoint.socket.get(),
                [this, weak = endpoint.weak_from_this()] {
                  if (auto strong = weak.lock()) OnDatagrams(*strong);
                });
}

int ConnectionManager::SendDatagram(const CmEndpoint& endpoint,
                                    const CmDatagram& datagram) {
  const base::SocketAddress peer = datagram.Destination();
  if (IsLocalAddress(peer)) return DeliverCmDatagram(datagram);
  DatagramRoute route;
  route.destination = peer;
  route.source = endpoint.Local();
  const iovec part = {const_cast<CmDatagram*>(&datagram), sizeof(datagram)};
  return device_.datagrams().Send(route, &part, 1);
}

int ConnectionManager::ConnectDatagram(CmEndpoint& endpoint,
                                       const rdma_conn_param* parameters) {
  if (endpoint.state != CmState::kRouteResolved) return EINVAL;
  CmDatagram request;
  if (!CopyData(parameters, kDatagramRequestDataBytes, request)) return EINVAL;
  request.SetEnds(endpoint.Local(), endpoint.Peer());
  request.id = next_question_++;
  endpoint.datagram = request;
  endpoint.deadline = engine_.clock().Now() + kAnswerTimeout;
  endpoint.Transition(CmState::kConnecting);
  WatchDatagrams(endpoint);
  if (!IsLocalAddress(endpoint.Peer()) && !endpoint.reachable) {
    // The answer comes by the port that all share.
    device_.datagrams().AddReceiver();
    endpoint.reachable = true;
  }
  Ask(endpoint);
  return 0;
}

void ConnectionManager::Ask(CmEndpoint& endpoint) {
  const int error = SendDatagram(endpoint, endpoint.datagram);
  const bool may_come = engine_.clock().Now() <
                        endpoint.deadline - kAnswerTimeout + kListenerPause;
  if (error == ECONNREFUSED && !may_come) {
    endpoint.Transition(CmState::kClosed);
    Post(endpoint, RDMA_CM_EVENT_UNREACHABLE, kServiceUnknown);
    return;
  }
  engine_.StartTimer(kAskInterval, [this, weak = endpoint.weak_from_this()] {
    const auto strong = weak.lock();
    if (strong == nullptr) return;
    std::lock_guard<std::mutex> lock(mutex_);
    if (strong->state != CmState::kConnecting || !strong->socket.valid()) {
      return;
    }
    if (engine_.clock().Now() < strong->deadline) {
      Ask(*strong);
      return;
    }
    strong->Transition(CmState::kClosed);
    Post(*strong, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
  });
}

int ConnectionManager::ListenForDatagrams(CmEndpoint& endpoint, int backlog) {
  if (endpoint.state != CmState::kBound) return EINVAL;
  constexpr int kBacklogMax = 1024;  // As for connections.
  endpoint.backlog =
      backlog > 0 && backlog < kBacklogMax ? backlog : kBacklogMax;
  endpoint.Transition(CmState::kListening);
  WatchDatagrams(endpoint);
  device_.datagrams().AddReceiver();
  endpoint.reachable = true;
  return 0;
}

int ConnectionManager::Answer(CmEndpoint& endpoint, uint8_t status,
                              const rdma_conn_param* parameters) {
  if (endpoint.state != CmState::kRequested) return EINVAL;
  CmDatagram reply;
  reply.type = CmDatagramType::kReply;
  reply.status = status;
  if (!CopyData(parameters, kDatagramReplyDataBytes, reply)) return EINVAL;
  if (status == kServiceAccepted) {
    if (endpoint.qp == nullptr && parameters == nullptr) return EINVAL;
    reply.qp_num = htonl(endpoint.qp != nullptr ? endpoint.qp->qp_num
                                                : parameters->qp_num);
    reply.qkey = htonl(RDMA_UDP_QKEY);
  }
  reply.id = endpoint.datagram.id;
  reply.SetEnds(endpoint.Local(), endpoint.Peer());
  endpoint.datagram = reply;
  if (status == kServiceAccepted) {
    endpoint.Transition(CmState::kAccepting);
    endpoint.Transition(CmState::kEstablished);
  } else {
    endpoint.Transition(CmState::kClosed);
  }
  // If it is lost, the peer asks again.
  SendDatagram(endpoint, reply);
  return 0;
}

void ConnectionManager::OnDatagrams(CmEndpoint& endpoint) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (int i = 0; i < kReadBatch && endpoint.socket.valid(); ++i) {
    std::byte bytes[sizeof(CmDatagram) + 1];
    const ssize_t length =
        ReceiveDatagram(endpoint.socket.get(), bytes, sizeof(bytes));
    if (length < 0) return;
    CmDatagram datagram;
    if (!ReadCmDatagram(bytes, static_cast<size_t>(length), datagram)) continue;
    if (datagram.type == CmDatagramType::kRequest) {
      OnQuestion(endpoint, datagram);
    } else {
      OnAnswer(endpoint, datagram);
    }
  }
}

void ConnectionManager::OnQuestion(CmEndpoint& listener,
                                   const CmDatagram& question) {
  if (listener.state != CmState::kListening) return;
  const auto key = std::make_pair(question.Source().ToString(), question.id);
  const auto known = listener.questions.find(key);
  if (known != listener.questions.end()) {
    // Asked again: the answer, if there was one, has been lost.
    const auto child = known->second.lock();
    if (child != nullptr && child->state != CmState::kRequested) {
      SendDatagram(*child, child->datagram);
    }
    return;
  }
  if (listener.requests_unread >= listener.backlog) return;
  auto child = std::make_shared<CmEndpoint>();
  child->channel = listener.channel;
  child->context = listener.context;
  child->ps = listener.ps;
  child->qp_type = listener.qp_type;
  child->verbs = Context();
  if (child->verbs == nullptr) return;
  child->port_num = kPort;
  child->SetLocal(question.Destination());
  child->SetPeer(question.Source());
  child->state = CmState::kRequested;
  child->datagram = question;
  if (listener.questions.size() >= kQuestionsMax) {
    std::erase_if(listener.questions,
                  [](const auto& entry) { return entry.second.expired(); });
    if (listener.questions.size() >= kQuestionsMax) return;
  }
  listener.questions[key] = child;
  ++listener.requests_unread;
  auto event = std::make_unique<CmEventRecord>();
  event->event = RDMA_CM_EVENT_CONNECT_REQUEST;
  event->id = child.get();
  event->listen_id = &listener;
  event->owner = listener.shared_from_this();
  event->child = std::move(child);
  PostWithData(listener, std::move(event), question, kDatagramRequestDataBytes);
}

void ConnectionManager::OnAnswer(CmEndpoint& endpoint,
                                 const CmDatagram& answer) {
  if (endpoint.state != CmState::kConnecting ||
      answer.id != endpoint.datagram.id) {
    return;
  }
  auto event = std::make_unique<CmEventRecord>();
  event->id = &endpoint;
  event->owner = endpoint.shared_from_this();
  if (answer.status != kServiceAccepted) {
    endpoint.Transition(CmState::kClosed);
    event->event = RDMA_CM_EVENT_UNREACHABLE;
    event->status = answer.status;
  } else {
    endpoint.Transition(CmState::kEstablished);
    event->event = RDMA_CM_EVENT_ESTABLISHED;
    rdma_ud_param& parameters = event->param.ud;
    parameters.ah_attr = PathTo(endpoint, GidOf(endpoint.Peer()), kHopLimit);
    parameters.qp_num = ntohl(answer.qp_num) & kQueuePairNumberMax;
    parameters.qkey = ntohl(answer.qkey);
  }
  PostWithData(endpoint, std::move(event), answer, kDatagramReplyDataBytes);
}

void ConnectionManager::PostWithData(CmEndpoint& endpoint,
                                     std::unique_ptr<CmEventRecord> event,
                                     const CmDatagram& datagram,
                                     uint8_t data_bytes) {
  std::memcpy(event->private_data.data(), datagram.private_data.data(),
              data_bytes);
  event->param.ud.private_data = event->private_data.data();
  event->param.ud.private_data_len = data_bytes;
  CmChannel::From(endpoint.channel)->Push(std::move(event));
}

ibv_ah_attr ConnectionManager::PathTo(const CmEndpoint& endpoint,
                                      const ibv_gid& gid,
                                      uint8_t hop_limit) const {
  ibv_ah_attr path = {};
  path.is_global = 1;
  path.port_num = kPort;
  path.grh.dgid = gid;
  path.grh.sgid_index = static_cast<uint8_t>(GidIndex(endpoint));
  path.grh.hop_limit = hop_limit;
  return path;
}

int ConnectionManager::JoinMulticast(CmEndpoint& endpoint,
                                     const base::SocketAddress& group,
                                     bool send_only, void* context) {
  std::lock_guard<std::mutex> lock(mutex_);
  const ibv_gid gid = GidOf(group);
  if (endpoint.ps != RDMA_PS_UDP || endpoint.verbs == nullptr ||
      group.empty() || !IsMulticastGid(gid)) {
    return EINVAL;
  }
  const ibv_ah_attr path = PathTo(endpoint, gid, kGroupHopLimit);
  const auto source = device_.gids().At(path.grh.sgid_index);
  if (!source.has_value()) return EADDRNOTAVAIL;
  const bool attach = endpoint.qp != nullptr && !send_only;
  if (attach) {
    const int error = AttachMcastOn(endpoint.qp, &gid, source->ndev_ifindex);
    if (error != 0) return error;
  }
  endpoint.groups.push_back({gid, attach});
  auto event = std::make_unique<CmEventRecord>();
  event->event = RDMA_CM_EVENT_MULTICAST_JOIN;
  event->id = &endpoint;
  event->owner = endpoint.shared_from_this();
  rdma_ud_param& parameters = event->param.ud;
  parameters.private_data = context;
  parameters.ah_attr = path;
  parameters.qp_num = kMulticastQueuePair;
  parameters.qkey = RDMA_UDP_QKEY;
  CmChannel::From(endpoint.channel)->Push(std::move(event));
  return 0;
}

int ConnectionManager::LeaveMulticast(CmEndpoint& endpoint,
                                      const base::SocketAddress& group) {
  std::lock_guard<std::mutex> lock(mutex_);
  const ibv_gid gid = GidOf(group);
  for (auto entry = endpoint.groups.begin(); entry != endpoint.groups.end();
       ++entry) {
    if (!SameGid(entry->gid, gid)) continue;
    if (entry->attached) DetachMcast(endpoint.qp, &gid, 0);
    endpoint.groups.erase(entry);
    return 0;
  }
  return EADDRNOTAVAIL;
}

void ConnectionManager::EndDatagrams(CmEndpoint& endpoint) {
  for (CmEndpoint::Group& group : endpoint.groups) {
    if (std::exchange(group.attached, false)) {
      DetachMcast(endpoint.qp, &group.gid, 0);
    }
  }
  if (std::exchange(endpoint.reachable, false)) {
    device_.datagrams().RemoveReceiver();
  }
}

}  // namespace verbena::soft
