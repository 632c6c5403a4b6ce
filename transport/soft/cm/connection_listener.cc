#include "transport/soft/cm/connection_listener.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "transport/soft/address/cm_address.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/base/peer_users.h"
#include "transport/soft/link/link.h"
#include "transport/soft/remote/tcp_socket.h"

namespace verbena::soft {
namespace {

// A correct peer sends its request with its first system call after connecting,
// so this many without one, or one for so long, are not correct peers.
constexpr size_t kHalfOpenMax = 128;
constexpr std::chrono::seconds kHalfOpenTimeout(5);

// The pause before it looks again when it is out of memory, or when too many
// descriptors that others have sent are still to be closed.
constexpr std::chrono::milliseconds kAcceptPause(100);

// The pause when it is out of descriptors: in each a client hears why it is
// refused, with the one descriptor that is kept for that, and whoever comes at
// once with many others waits for no longer than it has patience.
constexpr std::chrono::milliseconds kRefusePause(5);

// Connections taken in one callback, so that others have their turn.
constexpr int kAcceptBatch = 64;

}  // namespace

// Other hosts connect to the TCP port of the same number. It is opened first:
// some other program may have it.
int ConnectionListener::Start(CmEndpoint& listener) {
  base::UniqueFd tcp;
  if (network_.enabled() && !listener.Local().IsLoopback()) {
    if (const int error = network_.Start(); error != 0) return error;
    const int error =
        OpenTcpListener(listener.Local(), listener.ipv6_only, tcp);
    if (error != 0) return error;
    // Those that it accepts have it as well.
    SetTrafficClass(tcp.get(), listener.traffic_class);
  }
  KeepSpare(listener);
  // The engine's thread empties the kernel's queue at once. The user's backlog
  // limits our own queue of requests, which the user empties.
  if (::listen(listener.socket.get(), kBacklogMax) != 0) return errno;
  if (const int error = Watch(listener); error != 0) return error;
  listener.listening.tcp = std::move(tcp);
  if (!listener.listening.tcp.valid()) return 0;
  const int error = WatchTcp(listener);
  if (error != 0) callbacks_.Unwatch(listener.socket.get());
  return error;
}

void ConnectionListener::KeepSpare(CmEndpoint& listener) {
  base::UniqueFd& spare = listener.listening.spare;
  if (!spare.valid()) spare = base::UniqueFd(::eventfd(0, EFD_CLOEXEC));
}

int ConnectionListener::Watch(CmEndpoint& listener) {
  return callbacks_.Watch(listener.socket.get(), listener,
                          [this](CmEndpoint& watched, ClosingSockets& closing)
                              ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) {
                                OnIncoming(watched, closing);
                              });
}

int ConnectionListener::WatchTcp(CmEndpoint& listener) {
  return callbacks_.Watch(listener.listening.tcp.get(), listener,
                          [this](CmEndpoint& watched, ClosingSockets& closing)
                              ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) {
                                OnRemote(watched, closing);
                              });
}

// Accepts until the kernel's queue is empty or others must have their turn. The
// user of the peer's process is looked at before anything is read from it.
void ConnectionListener::OnIncoming(CmEndpoint& listener,
                                    ClosingSockets& closing) {
  KeepSpare(listener);
  base::UniqueFd& spare = listener.listening.spare;
  for (int i = 0; i < kAcceptBatch && ForeignFd::HasRoom(); ++i) {
    base::UniqueFd socket(::accept4(listener.socket.get(), nullptr, nullptr,
                                    SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid() && users_.AllowsPeerOf(socket.get())) {
      AddHalfOpen(listener, {std::move(socket), {}, nullptr}, closing);
      continue;
    }
    if (socket.valid()) {
      SendCmMessage(socket.get(), {.type = CmMessageType::kReject,
                                   .reject_reason = kOtherUser});
      closing.Add(std::move(socket));
      continue;
    }
    // ECONNABORTED: the peer has gone before it was accepted.
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return;
    if ((errno == EMFILE || errno == ENFILE) && spare.valid()) {
      // In its place one client is accepted and hears why it is refused: there
      // is no room for the descriptor that its request brings.
      spare.Reset();
      continue;
    }
    Pause(errno == EMFILE ? kRefusePause : kAcceptPause, listener);
    return;
  }
  if (!ForeignFd::HasRoom()) Pause(kAcceptPause, listener);
}

// Does not watch the listener for a while: the connections stay in the kernel's
// queue, and would bring us back at once.
void ConnectionListener::Pause(std::chrono::milliseconds pause,
                               CmEndpoint& listener) {
  callbacks_.Unwatch(listener.socket.get());
  callbacks_.StartTimer(pause, listener,
                        [this](CmEndpoint& paused, ClosingSockets& /*closing*/)
                            ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) {
                              if (Watch(paused) != 0) {
                                Pause(kAcceptPause, paused);
                              }
                            });
}

void ConnectionListener::AddHalfOpen(CmEndpoint& listener,
                                     HalfOpenConnection half_open,
                                     ClosingSockets& closing) {
  auto& half_opens = listener.listening.half_open;
  if (half_opens.size() >= kHalfOpenMax) {
    RemoveHalfOpen(listener, half_opens.begin()->first, closing);
  }
  const uint64_t key = listener.listening.next_half_open++;
  // The kernel refuses to watch the socket: the client hears that there is no
  // room.
  if (WatchHalfOpen(listener, key, half_open.socket.get()) != 0) {
    Refuse(half_open.socket.get());
    closing.Add(std::move(half_open.socket));
    return;
  }
  callbacks_.StartTimer(
      kHalfOpenTimeout, listener,
      [this, key](CmEndpoint& waiting, ClosingSockets& sockets)
          ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) {
            RemoveHalfOpen(waiting, key, sockets);
          });
  half_opens.emplace(key, std::move(half_open));
}

int ConnectionListener::WatchHalfOpen(CmEndpoint& listener, uint64_t key,
                                      int socket) {
  return callbacks_.Watch(
      socket, listener,
      [this, key](CmEndpoint& watched, ClosingSockets& sockets)
          ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) {
            OnHalfOpenReadable(watched, key, sockets);
          });
}

// The message stays in the socket, and would bring us back at once.
void ConnectionListener::PauseHalfOpen(CmEndpoint& listener, uint64_t key,
                                       int socket) {
  callbacks_.Unwatch(socket);
  callbacks_.StartTimer(
      kAcceptPause, listener,
      [this, key](CmEndpoint& paused, ClosingSockets& /*sockets*/)
          ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) {
            const auto found = paused.listening.half_open.find(key);
            if (found == paused.listening.half_open.end()) return;
            const int same = found->second.socket.get();
            if (WatchHalfOpen(paused, key, same) != 0) {
              PauseHalfOpen(paused, key, same);
            }
          });
}

void ConnectionListener::RemoveHalfOpen(CmEndpoint& listener, uint64_t key,
                                        ClosingSockets& closing) {
  auto& half_opens = listener.listening.half_open;
  const auto found = half_opens.find(key);
  // Its timer comes even if the connection is gone.
  if (found == half_opens.end()) return;
  closing.Add(std::move(found->second.socket));
  half_opens.erase(found);
}

// Takes the first message, by which the connection stops being half open,
// whatever it says. TakeRequest() moves the socket away if it accepts;
// otherwise it is closed.
void ConnectionListener::OnHalfOpenReadable(CmEndpoint& listener, uint64_t key,
                                            ClosingSockets& closing) {
  const auto found = listener.listening.half_open.find(key);
  if (found == listener.listening.half_open.end()) return;
  CmReceived received = ReceiveCmMessage(found->second.socket.get());
  if (received.kind == CmReceived::Kind::kNothing) return;
  if (received.kind == CmReceived::Kind::kLater) {
    PauseHalfOpen(listener, key, found->second.socket.get());
    return;
  }
  HalfOpenConnection half_open = std::move(found->second);
  listener.listening.half_open.erase(found);
  if (received.kind == CmReceived::Kind::kMessage) {
    TakeRequest(listener, received, half_open);
  } else if (received.lost_fd) {
    Refuse(half_open.socket.get());
  }
  closing.Add(std::move(half_open.socket));
}

// Accepts connections of other hosts, as OnIncoming() does those of this one.
void ConnectionListener::OnRemote(CmEndpoint& listener,
                                  ClosingSockets& closing) {
  for (int i = 0; i < kAcceptBatch; ++i) {
    base::UniqueFd socket(::accept4(listener.listening.tcp.get(), nullptr,
                                    nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid()) {
      AddRemote(listener, std::move(socket), closing);
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    // Out of descriptors or memory: the connections stay in the kernel's queue,
    // and would bring us back at once.
    if (errno != EAGAIN) PauseTcp(listener);
    return;
  }
}

void ConnectionListener::PauseTcp(CmEndpoint& listener) {
  callbacks_.Unwatch(listener.listening.tcp.get());
  callbacks_.StartTimer(kAcceptPause, listener,
                        [this](CmEndpoint& paused, ClosingSockets& /*closing*/)
                            ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) {
                              if (WatchTcp(paused) != 0) PauseTcp(paused);
                            });
}

// A relay of this process plays the peer from here on. It gets the other end of
// a pair of sockets, and its request comes as that of any other peer.
void ConnectionListener::AddRemote(CmEndpoint& listener, base::UniqueFd tcp,
                                   ClosingSockets& closing) {
  int sockets[2];
  if (!AdoptTcpSocket(tcp.get()) ||
      ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                   sockets) != 0) {
    return;
  }
  const base::SocketAddress peer = TcpPeerAddress(tcp.get());
  base::UniqueFd own(sockets[0]);
  std::shared_ptr<LinkDriver> driver = network_.Accept(
      ForeignFd(std::move(tcp)), /*manual=*/false,
      {std::nullopt, LinkSide::kFirst, base::UniqueFd(sockets[1])});
  AddHalfOpen(listener, {std::move(own), peer, std::move(driver)}, closing);
}

void ConnectionListener::Refuse(int socket) {
  SendCmMessage(
      socket, {.type = CmMessageType::kReject, .reject_reason = kNoResources});
  warning_.Say(
      "the software device refuses clients: this process is out of file "
      "descriptors or memory (see `ulimit -n`, and fs.epoll.max_user_watches)");
}

// Checks what the peer says, maps its memory, makes the endpoint, and only then
// moves the socket to it. Requests that no correct peer sends get no answer.
void ConnectionListener::TakeRequest(CmEndpoint& listener, CmReceived& received,
                                     HalfOpenConnection& half_open) {
  base::UniqueFd& socket = half_open.socket;
  const CmMessage& request = received.message;
  const base::SocketAddress local = request.Destination();
  const bool relayed = !half_open.remote.empty();
  const base::SocketAddress peer =
      relayed ? half_open.remote : PeerOf(socket.get());
  // A process can give its socket any name; one that is not an address of this
  // host is a lie.
  const bool lies = !relayed && !IsLocalAddress(peer);
  if (request.type != CmMessageType::kConnectRequest || !received.fd.valid() ||
      request.qp_num > kQueuePairNumberMax ||
      local.port() != listener.Local().port() || peer.empty() || lies ||
      peer.family() != local.family()) {
    return;
  }
  if (events_.UnreadRequests(listener) >= listener.listening.backlog) {
    SendCmMessage(socket.get(), {.type = CmMessageType::kReject,
                                 .reject_reason = kConsumerReject});
    return;
  }
  absl::StatusOr<LinkMemory> link = LinkMemory::Map(received.fd.get());
  if (absl::IsResourceExhausted(link.status())) Refuse(socket.get());
  if (!link.ok()) return;
  received.fd.Release().Reset();  // A memory file, so close() does not wait.
  // The connection may have been accepted in place of the spare. If there is no
  // descriptor for a new spare, this client is refused. Otherwise later clients
  // could not even be told why they are refused.
  KeepSpare(listener);
  if (!listener.listening.spare.valid()) return Refuse(socket.get());
  const std::shared_ptr<CmEndpoint> child =
      addresses_.MakeRequested(listener, local, peer);
  if (child == nullptr) return Refuse(socket.get());
  child->connection.request = request;
  // The two depths change places: what the peer can start is what this side
  // must answer.
  child->connection.terms = {.peer_qp_num = request.qp_num,
                             .responder_resources = request.initiator_depth,
                             .initiator_depth = request.responder_resources,
                             .retry_count = request.retry_count,
                             .rnr_retry_count = request.rnr_retry_count};
  if (!relayed) child->connection.peer_user = PeerUsers::UserOf(socket.get());
  child->connection.link = *std::move(link);
  child->connection.driver = std::move(half_open.driver);
  // From now on the socket has the callback of the endpoint in place of that of
  // the half-open connection. Both run on this thread, so no call falls
  // between.
  callbacks_.Unwatch(socket.get());
  child->socket = std::move(socket);
  if (handshake_.Watch(*child) != 0) {
    socket = std::move(child->socket);
    return Refuse(socket.get());
  }
  auto event = std::make_unique<CmEventRecord>(RDMA_CM_EVENT_CONNECT_REQUEST);
  event->SetConnection(request, kRequestDataBytes);
  events_.PostRequest(listener, child, std::move(event));
}

void ConnectionListener::End(CmEndpoint& listener, ClosingSockets& closing) {
  for (auto& [key, half_open] : listener.listening.half_open) {
    closing.Add(std::move(half_open.socket));
  }
  listener.listening.half_open.clear();
  closing.Add(std::move(listener.listening.tcp));
}

}  // namespace verbena::soft
