// The passive side up to the CONNECT_REQUEST.

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/status/statusor.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/cm/connection_manager.h"
#include "transport/soft/remote/network.h"
#include "transport/soft/remote/tcp_protocol.h"
#include "transport/soft/remote/tcp_socket.h"

namespace verbena::soft {
namespace {

// What listen(id, 0) means, and the most it can be: as in the kernel's manager.
constexpr int kBacklogMax = 1024;

// A correct peer sends its request with its first system call after connecting,
// so this many without one, or one for so long, are not correct peers.
constexpr size_t kHalfOpenMax = 128;
constexpr std::chrono::seconds kHalfOpenTimeout(5);

// Out of descriptors or memory: when to look again.
constexpr std::chrono::milliseconds kAcceptPause(100);

// Connections taken in one callback, so that others have their turn.
constexpr int kAcceptBatch = 64;

}  // namespace

int ConnectionManager::Listen(CmEndpoint& endpoint, int backlog) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (endpoint.state == CmState::kIdle) {
    const int error = Bind(endpoint, base::SocketAddress::Any(AF_INET, 0),
                           BindPurpose::kListen);
    if (error != 0) return error;
  }
  if (endpoint.ps == RDMA_PS_UDP) return ListenForDatagrams(endpoint, backlog);
  if (endpoint.state != CmState::kBound) return EINVAL;
  // The engine's thread empties the kernel's queue at once. Ours, which the
  // user empties, is the one that `backlog` limits.
  if (::listen(endpoint.socket.get(), kBacklogMax) != 0) return errno;
  endpoint.backlog =
      backlog > 0 && backlog < kBacklogMax ? backlog : kBacklogMax;
  endpoint.Transition(CmState::kListening);
  WatchListener(endpoint);
  if (device_.network().enabled() && !endpoint.Local().IsLoopback()) {
    device_.network().OpenPort();
  }
  return 0;
}

void ConnectionManager::WatchListener(CmEndpoint& listener) {
  engine_.Watch(listener.socket.get(),
                [this, weak = listener.weak_from_this()] {
                  if (auto strong = weak.lock()) OnIncoming(*strong);
                });
}

void ConnectionManager::OnIncoming(CmEndpoint& listener) {
  Retired retired(engine_);
  std::lock_guard<std::mutex> lock(mutex_);
  if (!listener.socket.valid()) return;  // Destroyed meanwhile.
  for (int i = 0; i < kAcceptBatch; ++i) {
    base::UniqueFd socket(::accept4(listener.socket.get(), nullptr, nullptr,
                                    SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid()) {
      AddHalfOpen(listener, {std::move(socket), {}}, retired);
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return;
    // The connection stays in the queue and would bring us back here at once.
    engine_.Unwatch(listener.socket.get());
    engine_.StartTimer(kAcceptPause, [this, weak = listener.weak_from_this()] {
      auto strong = weak.lock();
      if (strong == nullptr) return;
      std::lock_guard<std::mutex> lock(mutex_);
      if (strong->socket.valid()) WatchListener(*strong);
    });
    return;
  }
}

void ConnectionManager::AddHalfOpen(CmEndpoint& listener,
                                    CmEndpoint::HalfOpen half_open,
                                    Retired& retired) {
  if (listener.half_open.size() >= kHalfOpenMax) {
    const auto oldest = listener.half_open.begin();
    retired.Add(std::move(oldest->second.socket));
    listener.half_open.erase(oldest);
  }
  const uint64_t key = next_half_open_++;
  const std::weak_ptr<CmEndpoint> weak = listener.weak_from_this();
  engine_.Watch(half_open.socket.get(), [this, weak, key] {
    if (auto strong = weak.lock()) OnHalfOpenReadable(*strong, key);
  });
  engine_.StartTimer(kHalfOpenTimeout, [this, weak, key] {
    if (auto strong = weak.lock()) OnHalfOpenTimeout(*strong, key);
  });
  listener.half_open.emplace(key, std::move(half_open));
}

void ConnectionManager::OnHalfOpenTimeout(CmEndpoint& listener, uint64_t key) {
  Retired retired(engine_);
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = listener.half_open.find(key);
  if (found == listener.half_open.end()) return;
  retired.Add(std::move(found->second.socket));
  listener.half_open.erase(found);
}

void ConnectionManager::OnHalfOpenReadable(CmEndpoint& listener, uint64_t key) {
  Retired retired(engine_);
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = listener.half_open.find(key);
  if (found == listener.half_open.end()) return;
  CmReceived received = ReceiveCmMessage(found->second.socket.get());
  if (received.kind == CmReceived::Kind::kNothing) return;
  CmEndpoint::HalfOpen half_open = std::move(found->second);
  listener.half_open.erase(found);
  if (received.kind == CmReceived::Kind::kMessage) {
    if (received.message.type == CmMessageType::kRemoteConnection) {
      AddRemote(listener, std::move(received.fd), retired);
    } else {
      TakeRequest(listener, std::move(received), half_open);
    }
  }
  retired.Add(std::move(half_open.socket));
}

// A relay of this process plays the peer from here on: its request comes as
// that of any other.
void ConnectionManager::AddRemote(CmEndpoint& listener, base::UniqueFd tcp,
                                  Retired& retired) {
  TcpPreamble preamble;
  int sockets[2];
  if (!device_.network().enabled() ||
      !Network::ReadPreamble(tcp.get(), preamble) ||
      preamble.purpose != TcpPurpose::kConnectionManager ||
      ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                   sockets) != 0) {
    return;
  }
  base::SocketAddress remote = TcpPeerAddress(tcp.get());
  remote.set_port(preamble.source_port);
  AddHalfOpen(listener, {base::UniqueFd(sockets[0]), remote}, retired);
  device_.network().Accept(
      std::move(tcp), preamble,
      {std::nullopt, LinkSide::kFirst, base::UniqueFd(sockets[1])});
}

bool ConnectionManager::TakeRequest(CmEndpoint& listener, CmReceived received,
                                    CmEndpoint::HalfOpen& half_open) {
  base::UniqueFd& socket = half_open.socket;
  const CmMessage& request = received.message;
  const base::SocketAddress local = request.Destination();
  const base::SocketAddress peer =
      half_open.remote.empty() ? PeerOf(socket.get()) : half_open.remote;
  if (request.type != CmMessageType::kConnectRequest || !received.fd.valid() ||
      request.qp_num > kQueuePairNumberMax ||
      local.port() != listener.Local().port() || peer.empty() ||
      peer.family() != local.family()) {
    return false;
  }
  if (listener.requests_unread >= listener.backlog) {
    SendCmMessage(socket.get(), {.type = CmMessageType::kReject,
                                 .reject_reason = kConsumerReject});
    return false;
  }
  absl::StatusOr<LinkMemory> link = LinkMemory::Map(received.fd.get());
  if (!link.ok()) return false;

  auto child = std::make_shared<CmEndpoint>();
  child->channel = listener.channel;
  child->context = listener.context;
  child->ps = listener.ps;
  child->qp_type = listener.qp_type;
  child->verbs = Context();
  child->port_num = 1;
  child->ack_timeout = listener.ack_timeout;
  child->SetLocal(local);
  child->SetPeer(peer);
  child->state = CmState::kRequested;
  child->request = request;
  child->link = *std::move(link);
  child->relayed = !half_open.remote.empty();
  if (child->verbs == nullptr) return false;
  // From one callback to another, on the thread that runs both.
  engine_.Unwatch(socket.get());
  child->socket = std::move(socket);
  WatchConnection(*child);
  ++listener.requests_unread;
  Post(listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0, request, kRequestDataBytes,
       std::move(child));
  return true;
}

}  // namespace verbena::soft
