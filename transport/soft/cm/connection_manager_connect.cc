// The handshake of a connection, and its end.

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "transport/soft/address/gid_table.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/cm/cm_queue_pair.h"
#include "transport/soft/cm/connection_manager.h"
#include "transport/soft/connected/queue_pair.h"
#include "transport/soft/remote/network.h"
#include "transport/soft/remote/tcp_protocol.h"

namespace verbena::soft {
namespace {

// How long the other application may take to answer, and to become ready.
constexpr std::chrono::seconds kHandshakeTimeout(5);

// When to try again to reach a listener that is away or whose kernel queue is
// full.
constexpr std::chrono::milliseconds kConnectPause(kListenerLookMs);
constexpr std::chrono::milliseconds kListenerPause(kListenerAwayMs);

// Messages taken in one callback, so that others have their turn.
constexpr int kReadBatch = 64;

// Fills in what both connect and accept say. Null parameters ask for the most,
// as do the two special values; false when they are beyond the device.
bool FillParameters(const rdma_conn_param* parameters, uint8_t data_bytes_max,
                    CmMessage& message) {
  message.responder_resources = kReadsMax;
  message.initiator_depth = kReadsMax;
  message.retry_count = 7;
  message.rnr_retry_count = 7;
  if (parameters == nullptr) return true;
  if (parameters->responder_resources != RDMA_MAX_RESP_RES) {
    message.responder_resources = parameters->responder_resources;
  }
  if (parameters->initiator_depth != RDMA_MAX_INIT_DEPTH) {
    message.initiator_depth = parameters->initiator_depth;
  }
  message.retry_count = parameters->retry_count;
  message.rnr_retry_count = parameters->rnr_retry_count;
  if (parameters->private_data != nullptr) {
    if (parameters->private_data_len > data_bytes_max) return false;
    std::memcpy(message.private_data.data(), parameters->private_data,
                parameters->private_data_len);
  }
  return message.responder_resources <= kReadsMax &&
         message.initiator_depth <= kReadsMax && message.retry_count <= 7 &&
         message.rnr_retry_count <= 7;
}

}  // namespace

int ConnectionManager::Connect(CmEndpoint& endpoint,
                               const rdma_conn_param* parameters) {
  Retired retired(engine_);
  std::lock_guard<std::mutex> lock(mutex_);
  if (endpoint.ps == RDMA_PS_UDP) return ConnectDatagram(endpoint, parameters);
  if (endpoint.state != CmState::kRouteResolved || endpoint.qp == nullptr) {
    return EINVAL;
  }
  CmMessage request = {.type = CmMessageType::kConnectRequest};
  if (!FillParameters(parameters, kRequestDataBytes, request)) return EINVAL;
  request.qp_num = endpoint.qp->qp_num;
  request.SetDestination(endpoint.Peer());
  absl::StatusOr<LinkMemory> link = LinkMemory::Create();
  if (!link.ok()) return ENOMEM;
  endpoint.link = *std::move(link);
  endpoint.request = request;
  endpoint.deadline = engine_.clock().Now() + kHandshakeTimeout;
  endpoint.Transition(CmState::kConnecting);
  TryConnect(endpoint, retired);
  return 0;
}

int ConnectionManager::GidIndex(const CmEndpoint& endpoint) const {
  return device_.gids().Find(GidOf(endpoint.Local())).value_or(0);
}

void ConnectionManager::TryConnect(CmEndpoint& endpoint, Retired& retired) {
  int error = IsLocalAddress(endpoint.Peer())
                  ? ConnectSocket(endpoint.socket.get(), endpoint.Peer())
                  : ConnectToHost(endpoint);
  const int socket = endpoint.socket.get();
  const bool may_return = engine_.clock().Now() < endpoint.deadline -
                                                      kHandshakeTimeout +
                                                      kListenerPause;
  if (error == EAGAIN || (error == ECONNREFUSED && may_return)) {
    StartTimer(endpoint, kConnectPause);
    return;
  }
  if (error == 0) {
    error = SendCmMessage(socket, endpoint.request, endpoint.link->fd());
  }
  if (error == ECONNREFUSED || error == ECONNRESET || error == EPIPE) {
    Fail(endpoint, RDMA_CM_EVENT_REJECTED, kInvalidServiceId, retired);
  } else if (error != 0) {
    Fail(endpoint, RDMA_CM_EVENT_CONNECT_ERROR, -error, retired);
  } else {
    endpoint.request_sent = true;
    WatchConnection(endpoint);
    StartTimer(endpoint, kHandshakeTimeout);
  }
}

// A relay of this process plays the peer, and is spoken to as one.
int ConnectionManager::ConnectToHost(CmEndpoint& endpoint) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                   sockets) != 0) {
    return errno;
  }
  endpoint.address_holder =
      std::exchange(endpoint.socket, base::UniqueFd(sockets[0]));
  endpoint.relayed = true;
  TcpPreamble preamble;
  preamble.purpose = TcpPurpose::kConnectionManager;
  preamble.source_port = endpoint.Local().port();
  preamble.destination_port = endpoint.Peer().port();
  device_.network().Connect(
      endpoint.Local(), endpoint.Peer(), preamble,
      {std::nullopt, LinkSide::kSecond, base::UniqueFd(sockets[1])});
  return 0;
}

void ConnectionManager::WatchConnection(CmEndpoint& endpoint) {
  engine_.Watch(endpoint.socket.get(),
                [this, weak = endpoint.weak_from_this()] {
                  if (auto strong = weak.lock()) OnReadable(*strong);
                });
}

void ConnectionManager::StartTimer(CmEndpoint& endpoint,
                                   std::chrono::nanoseconds delay) {
  // Never cancelled: it finds out by itself that it has come for nothing.
  engine_.StartTimer(delay, [this, weak = endpoint.weak_from_this()] {
    if (auto strong = weak.lock()) OnTimer(*strong);
  });
}

void ConnectionManager::OnTimer(CmEndpoint& endpoint) {
  Retired retired(engine_);
  std::lock_guard<std::mutex> lock(mutex_);
  const bool connecting = endpoint.state == CmState::kConnecting;
  if (!endpoint.socket.valid() ||
      (!connecting && endpoint.state != CmState::kAccepting)) {
    return;
  }
  if (engine_.clock().Now() >= endpoint.deadline) {
    Fail(endpoint, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, retired);
  } else if (connecting && !endpoint.request_sent) {
    TryConnect(endpoint, retired);
  }
}

int ConnectionManager::Accept(CmEndpoint& endpoint,
                              const rdma_conn_param* parameters) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (endpoint.ps == RDMA_PS_UDP) {
    return Answer(endpoint, kServiceAccepted, parameters);
  }
  if (endpoint.state != CmState::kRequested || endpoint.qp == nullptr ||
      !endpoint.link.has_value()) {
    return EINVAL;
  }
  CmMessage reply = {.type = CmMessageType::kConnectReply};
  if (!FillParameters(parameters, kReplyDataBytes, reply)) return EINVAL;
  const CmMessage& request = endpoint.request;
  if (parameters == nullptr) {
    // No more than the peer can use.
    reply.responder_resources =
        std::min(reply.responder_resources, request.initiator_depth);
    reply.initiator_depth =
        std::min(reply.initiator_depth, request.responder_resources);
  }
  reply.qp_num = endpoint.qp->qp_num;
  QueuePair::From(endpoint.qp)
      ->AttachLink(*std::move(endpoint.link), LinkSide::kSecond,
                   endpoint.socket.get());
  endpoint.link.reset();
  const int error = MoveToReadyToSend(
      endpoint.qp, {.peer_qp_num = request.qp_num,
                    .peer_gid = GidOf(endpoint.Peer()),
                    .gid_index = GidIndex(endpoint),
                    .responder_resources = reply.responder_resources,
                    .initiator_depth = reply.initiator_depth,
                    .retry_count = request.retry_count,
                    .rnr_retry_count = request.rnr_retry_count,
                    .ack_timeout = endpoint.ack_timeout});
  if (error != 0) return error;
  endpoint.deadline = engine_.clock().Now() + kHandshakeTimeout;
  endpoint.Transition(CmState::kAccepting);
  if (endpoint.peer_gone || SendCmMessage(endpoint.socket.get(), reply) != 0) {
    // As on a network, where the reply is lost and the peer never heard of.
    endpoint.Transition(CmState::kClosed);
    QueuePair::From(endpoint.qp)->OnPeerGone();
    Post(endpoint, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
    return 0;
  }
  StartTimer(endpoint, kHandshakeTimeout);
  return 0;
}

int ConnectionManager::Reject(CmEndpoint& endpoint, const void* private_data,
                              uint8_t length) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (endpoint.ps == RDMA_PS_UDP) {
    rdma_conn_param parameters = {};
    parameters.private_data = private_data;
    parameters.private_data_len = length;
    return Answer(endpoint, kServiceRejected, &parameters);
  }
  if (endpoint.state != CmState::kRequested || length > kRejectDataBytes) {
    return EINVAL;
  }
  CmMessage reject = {.type = CmMessageType::kReject,
                      .reject_reason = kConsumerReject};
  if (private_data != nullptr) {
    std::memcpy(reject.private_data.data(), private_data, length);
  }
  endpoint.Transition(CmState::kClosed);
  endpoint.link.reset();
  // To a peer that has gone meanwhile it makes no difference.
  SendCmMessage(endpoint.socket.get(), reject);
  return 0;
}

int ConnectionManager::Disconnect(CmEndpoint& endpoint) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (endpoint.ps == RDMA_PS_UDP) return EINVAL;  // Nothing is connected.
  if (endpoint.state != CmState::kEstablished &&
      endpoint.state != CmState::kAccepting &&
      endpoint.state != CmState::kClosed) {
    return EINVAL;
  }
  if (endpoint.qp != nullptr) {
    if (const int error = MoveToError(endpoint.qp); error != 0) return error;
  }
  if (endpoint.state == CmState::kClosed) return 0;
  endpoint.Transition(CmState::kClosed);
  if (SendCmMessage(endpoint.socket.get(),
                    {.type = CmMessageType::kDisconnect}) != 0) {
    // It does not read. The end of the socket says the same.
    ::shutdown(endpoint.socket.get(), SHUT_RDWR);
  }
  Post(endpoint, RDMA_CM_EVENT_DISCONNECTED, 0);
  return 0;
}

void ConnectionManager::OnReadable(CmEndpoint& endpoint) {
  Retired retired(engine_);
  std::lock_guard<std::mutex> lock(mutex_);
  for (int i = 0; i < kReadBatch && endpoint.socket.valid(); ++i) {
    const CmReceived received = ReceiveCmMessage(endpoint.socket.get());
    switch (received.kind) {
      case CmReceived::Kind::kNothing:
        return;
      case CmReceived::Kind::kDoorbell:
        if (endpoint.qp != nullptr) QueuePair::From(endpoint.qp)->OnDoorbell();
        break;
      case CmReceived::Kind::kMessage:
        if (HandleMessage(endpoint, received.message, retired)) break;
        [[fallthrough]];
      case CmReceived::Kind::kGarbage:
        // Not a peer to go on with.
        ::shutdown(endpoint.socket.get(), SHUT_RDWR);
        [[fallthrough]];
      case CmReceived::Kind::kEnd:
        HandleEnd(endpoint, retired);
        return;
    }
  }
}

bool ConnectionManager::HandleMessage(CmEndpoint& endpoint,
                                      const CmMessage& message,
                                      Retired& retired) {
  const CmState state = endpoint.state;
  if (state == CmState::kClosed) return true;  // It may have crossed ours.
  switch (message.type) {
    case CmMessageType::kConnectReply:
      if (state != CmState::kConnecting ||
          message.qp_num > kQueuePairNumberMax) {
        return false;
      }
      HandleReply(endpoint, message, retired);
      return true;
    case CmMessageType::kReadyToUse:
      if (state != CmState::kAccepting) return false;
      endpoint.Transition(CmState::kEstablished);
      Post(endpoint, RDMA_CM_EVENT_ESTABLISHED, 0);
      return true;
    case CmMessageType::kReject:
      if (state != CmState::kConnecting && state != CmState::kAccepting) {
        return false;
      }
      endpoint.Transition(CmState::kClosed);
      if (endpoint.qp != nullptr) MoveToError(endpoint.qp);
      Post(endpoint, RDMA_CM_EVENT_REJECTED, message.reject_reason, message,
           kRejectDataBytes);
      return true;
    case CmMessageType::kDisconnect:
      if (state != CmState::kEstablished) return false;
      endpoint.Transition(CmState::kClosed);
      Post(endpoint, RDMA_CM_EVENT_DISCONNECTED, 0);
      return true;
    case CmMessageType::kConnectRequest:
    case CmMessageType::kRemoteConnection:
      return false;
  }
  return false;
}

void ConnectionManager::HandleReply(CmEndpoint& endpoint,
                                    const CmMessage& reply, Retired& retired) {
  int error = EINVAL;  // The user has destroyed the queue pair meanwhile.
  if (endpoint.qp != nullptr) {
    QueuePair::From(endpoint.qp)
        ->AttachLink(*std::move(endpoint.link), LinkSide::kFirst,
                     endpoint.socket.get());
    endpoint.link.reset();
    error = MoveToReadyToSend(endpoint.qp,
                              {.peer_qp_num = reply.qp_num,
                               .peer_gid = GidOf(endpoint.Peer()),
                               .gid_index = GidIndex(endpoint),
                               .responder_resources = reply.initiator_depth,
                               .initiator_depth = reply.responder_resources,
                               .retry_count = endpoint.request.retry_count,
                               .rnr_retry_count = reply.rnr_retry_count,
                               .ack_timeout = endpoint.ack_timeout});
  }
  if (error != 0) {
    SendCmMessage(endpoint.socket.get(), {.type = CmMessageType::kReject,
                                          .reject_reason = kConsumerReject});
    Fail(endpoint, RDMA_CM_EVENT_CONNECT_ERROR, -error, retired);
    return;
  }
  endpoint.Transition(CmState::kEstablished);
  Post(endpoint, RDMA_CM_EVENT_ESTABLISHED, 0, reply, kReplyDataBytes);
  // If it cannot be sent, the peer is gone and the socket's end will say so.
  SendCmMessage(endpoint.socket.get(), {.type = CmMessageType::kReadyToUse});
}

void ConnectionManager::HandleEnd(CmEndpoint& endpoint, Retired& retired) {
  // The queue pair may still borrow the socket, so it is not closed here.
  engine_.Unwatch(endpoint.socket.get());
  endpoint.peer_gone = true;
  const CmState state = endpoint.state;
  if (state == CmState::kConnecting) {
    // With the listener or its process: what a network's next try would find.
    Fail(endpoint, RDMA_CM_EVENT_REJECTED, kInvalidServiceId, retired);
    return;
  }
  if (state == CmState::kRequested) return;  // Accept will tell.
  if (endpoint.qp != nullptr) QueuePair::From(endpoint.qp)->OnPeerGone();
  if (state == CmState::kClosed) return;
  endpoint.Transition(CmState::kClosed);
  if (state == CmState::kEstablished) {
    Post(endpoint, RDMA_CM_EVENT_DISCONNECTED, 0);
  } else {
    Post(endpoint, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
  }
}

void ConnectionManager::Fail(CmEndpoint& endpoint, rdma_cm_event_type type,
                             int status, Retired& retired) {
  endpoint.Transition(CmState::kClosed);
  endpoint.link.reset();
  if (endpoint.qp != nullptr) {
    QueuePair::From(endpoint.qp)->DetachLink();
    MoveToError(endpoint.qp);
  }
  retired.Add(std::move(endpoint.socket));
  Post(endpoint, type, status, CmMessage(),
       type == RDMA_CM_EVENT_REJECTED ? kRejectDataBytes : 0);
}

}  // namespace verbena::soft
