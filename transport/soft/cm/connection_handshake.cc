#include "transport/soft/cm/connection_handshake.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "transport/soft/address/gid_table.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/connected/connected_queue_pair.h"

namespace verbena::soft {
namespace {

// Messages taken in one callback, so that others have their turn.
constexpr int kReadBatch = 64;

constexpr uint8_t kHopLimit = 1;
constexpr uint8_t kRetriesMax = 7;

std::unique_ptr<CmEventRecord> MessageEvent(rdma_cm_event_type type, int status,
                                            const CmMessage& message,
                                            uint8_t data_bytes) {
  auto event = std::make_unique<CmEventRecord>(type, status);
  event->SetConnection(message, data_bytes);
  return event;
}

}  // namespace

// Begins with the most that the device has, which is also what
// RDMA_MAX_RESP_RES and RDMA_MAX_INIT_DEPTH ask for.
bool SetParameters(const rdma_conn_param* parameters, uint8_t data_bytes_max,
                   CmMessage& message) {
  message.responder_resources = kReadsMax;
  message.initiator_depth = kReadsMax;
  message.retry_count = kRetriesMax;
  message.rnr_retry_count = kRetriesMax;
  if (parameters == nullptr) return true;
  if (parameters->responder_resources != RDMA_MAX_RESP_RES) {
    message.responder_resources = parameters->responder_resources;
  }
  if (parameters->initiator_depth != RDMA_MAX_INIT_DEPTH) {
    message.initiator_depth = parameters->initiator_depth;
  }
  // More retries than three bits can count are cut to that, as the kernel does:
  // programs ask for 10 or 255 of them.
  message.retry_count = std::min(parameters->retry_count, kRetriesMax);
  message.rnr_retry_count = std::min(parameters->rnr_retry_count, kRetriesMax);
  if (parameters->private_data != nullptr) {
    if (parameters->private_data_len > data_bytes_max) return false;
    std::memcpy(message.private_data.data(), parameters->private_data,
                parameters->private_data_len);
  }
  return message.responder_resources <= kReadsMax &&
         message.initiator_depth <= kReadsMax;
}

bool SetQueuePair(const CmEndpoint& endpoint, const rdma_conn_param* parameters,
                  CmMessage& message) {
  if (endpoint.qp != nullptr) {
    message.qp_num = endpoint.qp->qp_num;
    return true;
  }
  if (parameters == nullptr) return false;
  message.qp_num = parameters->qp_num & kQueuePairNumberMax;
  // Without a queue pair of the identifier, the user drives one of his own.
  message.own_queue_pair = 1;
  return true;
}

int ConnectionHandshake::Watch(CmEndpoint& endpoint) {
  return callbacks_.Watch(endpoint.socket.get(), endpoint,
                          [this](CmEndpoint& watched, ClosingSockets& closing)
                              ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) {
                                OnReadable(watched, closing);
                              });
}

void ConnectionHandshake::StartTimer(CmEndpoint& endpoint) {
  callbacks_.StartTimer(
      kHandshakeTimeout, endpoint,
      [this](CmEndpoint& late, ClosingSockets& closing)
          ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) {
            // Timers are not cancelled. The one of an earlier step finds
            // another state, or a later deadline.
            const bool waits = late.state == CmState::kConnecting ||
                               late.state == CmState::kAccepting;
            if (!waits || callbacks_.Now() < late.deadline) return;
            Fail(late, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, closing);
          });
}

// Checks the terms of the user, gets the queue pair ready, and replies. From
// then on it waits for the peer's kReadyToUse, for no longer than
// kHandshakeTimeout.
int ConnectionHandshake::Accept(CmEndpoint& endpoint,
                                const rdma_conn_param* parameters) {
  if (endpoint.state != CmState::kRequested ||
      !endpoint.connection.link.has_value()) {
    return EINVAL;
  }
  CmMessage reply = {.type = CmMessageType::kConnectReply};
  if (!SetParameters(parameters, kReplyDataBytes, reply) ||
      !SetQueuePair(endpoint, parameters, reply)) {
    return EINVAL;
  }
  const CmMessage& request = endpoint.connection.request;
  if (parameters == nullptr) {
    // Grants no more than the peer can use.
    reply.responder_resources =
        std::min(reply.responder_resources, request.initiator_depth);
    reply.initiator_depth =
        std::min(reply.initiator_depth, request.responder_resources);
  }
  endpoint.connection.terms.responder_resources = reply.responder_resources;
  endpoint.connection.terms.initiator_depth = reply.initiator_depth;
  // The queue pair gets ready before the reply is sent. The peer may send as
  // soon as it has the reply, before its kReadyToUse arrives here.
  if (endpoint.qp != nullptr) {
    const int error = ConnectQueuePair(endpoint, LinkSide::kSecond,
                                       request.own_queue_pair != 0);
    if (error != 0) return error;
  }
  endpoint.deadline = callbacks_.Now() + kHandshakeTimeout;
  endpoint.Transition(CmState::kAccepting);
  if (endpoint.connection.peer_gone ||
      SendCmMessage(endpoint.socket.get(), reply) != 0) {
    // Accepting succeeds, and fails later, as on a network: there the reply is
    // lost and no more is heard of the peer.
    endpoint.Transition(CmState::kClosed);
    if (endpoint.qp != nullptr) {
      ConnectedQueuePair::From(endpoint.qp)->OnPeerGone();
    }
    events_.Post(endpoint, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
    return 0;
  }
  StartTimer(endpoint);
  return 0;
}

int ConnectionHandshake::Reject(CmEndpoint& endpoint, const void* private_data,
                                uint8_t length) {
  const bool may_reject = endpoint.state == CmState::kRequested ||
                          endpoint.state == CmState::kResponded;
  if (!may_reject || length > kRejectDataBytes) return EINVAL;
  CmMessage reject = {.type = CmMessageType::kReject,
                      .reject_reason = kConsumerReject};
  if (private_data != nullptr) {
    std::memcpy(reject.private_data.data(), private_data, length);
  }
  endpoint.Transition(CmState::kClosed);
  endpoint.connection.link.reset();
  // A failure is ignored: a peer that has gone needs no rejection.
  SendCmMessage(endpoint.socket.get(), reject);
  return 0;
}

// Before the peer has answered only the first transition has its attributes, as
// with the kernel's manager.
int ConnectionHandshake::InitQueuePairAttributes(const CmEndpoint& endpoint,
                                                 ibv_qp_attr& attributes,
                                                 int& mask) {
  switch (endpoint.state) {
    case CmState::kRequested:
    case CmState::kAccepting:
    case CmState::kResponded:
    case CmState::kEstablished:
      break;
    case CmState::kClosed:
      return EINVAL;
    default:
      if (endpoint.verbs == nullptr || attributes.qp_state != IBV_QPS_INIT) {
        return EINVAL;
      }
  }
  return FillAttributes(TermsOf(endpoint), attributes, mask);
}

int ConnectionHandshake::Establish(CmEndpoint& endpoint) {
  if (endpoint.state != CmState::kResponded) return EINVAL;
  endpoint.Transition(CmState::kEstablished);
  // If it cannot be sent, the peer is gone and the socket's end will say so.
  SendCmMessage(endpoint.socket.get(), {.type = CmMessageType::kReadyToUse});
  return 0;
}

// Takes the queue pair to ERR and tells the peer. The event comes at once,
// because the peer's answer is not waited for.
int ConnectionHandshake::Disconnect(CmEndpoint& endpoint) {
  if (endpoint.state != CmState::kEstablished &&
      endpoint.state != CmState::kResponded &&
      endpoint.state != CmState::kAccepting &&
      endpoint.state != CmState::kClosed) {
    return EINVAL;
  }
  if (endpoint.qp != nullptr) {
    if (const int error = MoveToError(endpoint.qp); error != 0) return error;
  }
  // If the peer was first, it need not be told.
  if (endpoint.state == CmState::kClosed) return 0;
  // A peer that was not told that this side is ready is rejected.
  const CmMessageType type = endpoint.state == CmState::kResponded
                                 ? CmMessageType::kReject
                                 : CmMessageType::kDisconnect;
  endpoint.Transition(CmState::kClosed);
  if (SendCmMessage(endpoint.socket.get(),
                    {.type = type, .reject_reason = kConsumerReject}) != 0) {
    // The peer does not read. The end of the socket says the same.
    ::shutdown(endpoint.socket.get(), SHUT_RDWR);
  }
  events_.Post(endpoint, RDMA_CM_EVENT_DISCONNECTED);
  return 0;
}

// Takes messages until there is none, or until one has made the endpoint fail,
// which takes the socket away.
void ConnectionHandshake::OnReadable(CmEndpoint& endpoint,
                                     ClosingSockets& closing) {
  for (int i = 0; i < kReadBatch && endpoint.socket.valid(); ++i) {
    const CmReceived received = ReceiveCmMessage(endpoint.socket.get());
    switch (received.kind) {
      case CmReceived::Kind::kNothing:
        return;
      case CmReceived::Kind::kDoorbell:
        if (endpoint.qp != nullptr) {
          ConnectedQueuePair::From(endpoint.qp)->OnDoorbell();
        }
        break;
      case CmReceived::Kind::kMessage:
        if (HandleMessage(endpoint, received.message, closing)) break;
        [[fallthrough]];
      case CmReceived::Kind::kLater:  // No correct peer sends descriptors here.
      case CmReceived::Kind::kGarbage:
        // The peer has broken the protocol: it hears no more of us.
        ::shutdown(endpoint.socket.get(), SHUT_RDWR);
        [[fallthrough]];
      case CmReceived::Kind::kEnd:
        HandleEnd(endpoint, closing);
        return;
    }
  }
}

// Returns false for a message that no correct peer sends in this state.
bool ConnectionHandshake::HandleMessage(CmEndpoint& endpoint,
                                        const CmMessage& message,
                                        ClosingSockets& closing) {
  const CmState state = endpoint.state;
  // The peer sent this before it knew that this side has closed.
  if (state == CmState::kClosed) return true;
  switch (message.type) {
    case CmMessageType::kConnectReply:
      if (state != CmState::kConnecting ||
          message.qp_num > kQueuePairNumberMax) {
        return false;
      }
      HandleReply(endpoint, message, closing);
      return true;
    case CmMessageType::kReadyToUse:
      if (state != CmState::kAccepting) return false;
      endpoint.Transition(CmState::kEstablished);
      events_.Post(endpoint, RDMA_CM_EVENT_ESTABLISHED);
      return true;
    case CmMessageType::kReject:
      // In kAccepting: a peer that could not use the reply sends kReject in
      // place of kReadyToUse.
      if (state != CmState::kConnecting && state != CmState::kAccepting) {
        return false;
      }
      HandleReject(endpoint, message);
      return true;
    case CmMessageType::kDisconnect:
      // While this side waits for its user, the peer may have given up.
      if (state != CmState::kEstablished && state != CmState::kResponded) {
        return false;
      }
      // The queue pair stays as it is until the user disconnects too.
      endpoint.Transition(CmState::kClosed);
      events_.Post(endpoint, RDMA_CM_EVENT_DISCONNECTED);
      return true;
    case CmMessageType::kConnectRequest:  // Only listeners are sent this.
      return false;
  }
  return false;
}

// Connects the queue pair with the terms of the reply, and tells the user and
// the peer. If the user drives the queue pair, only the user is told, who calls
// Establish() when it is ready.
void ConnectionHandshake::HandleReply(CmEndpoint& endpoint,
                                      const CmMessage& reply,
                                      ClosingSockets& closing) {
  CmQueuePairTerms& terms = endpoint.connection.terms;
  terms.peer_qp_num = reply.qp_num;
  // The two depths change places, as in the request.
  terms.responder_resources = reply.initiator_depth;
  terms.initiator_depth = reply.responder_resources;
  terms.rnr_retry_count = reply.rnr_retry_count;
  if (endpoint.connection.request.own_queue_pair != 0) {
    endpoint.connection.link.reset();
    endpoint.Transition(CmState::kResponded);
    events_.Post(endpoint, MessageEvent(RDMA_CM_EVENT_CONNECT_RESPONSE, 0,
                                        reply, kReplyDataBytes));
    return;
  }
  int error = EINVAL;  // The user has destroyed the queue pair meanwhile.
  if (endpoint.qp != nullptr) {
    error =
        ConnectQueuePair(endpoint, LinkSide::kFirst, reply.own_queue_pair != 0);
  }
  if (error != 0) {
    SendCmMessage(endpoint.socket.get(), {.type = CmMessageType::kReject,
                                          .reject_reason = kConsumerReject});
    Fail(endpoint, RDMA_CM_EVENT_CONNECT_ERROR, -error, closing);
    return;
  }
  endpoint.Transition(CmState::kEstablished);
  events_.Post(endpoint, MessageEvent(RDMA_CM_EVENT_ESTABLISHED, 0, reply,
                                      kReplyDataBytes));
  // If it cannot be sent, the peer is gone and the socket's end will say so.
  SendCmMessage(endpoint.socket.get(), {.type = CmMessageType::kReadyToUse});
}

void ConnectionHandshake::HandleReject(CmEndpoint& endpoint,
                                       const CmMessage& reject) {
  endpoint.Transition(CmState::kClosed);
  if (endpoint.qp != nullptr) MoveToError(endpoint.qp);
  events_.Post(endpoint,
               MessageEvent(RDMA_CM_EVENT_REJECTED, reject.reject_reason,
                            reject, kRejectDataBytes));
}

// The peer's process is gone or has let go. The event depends on how far the
// connection had come.
void ConnectionHandshake::HandleEnd(CmEndpoint& endpoint,
                                    ClosingSockets& closing) {
  // The queue pair may still borrow the socket, so it is not closed here.
  callbacks_.Unwatch(endpoint.socket.get());
  endpoint.connection.peer_gone = true;
  const CmState state = endpoint.state;
  if (state == CmState::kConnecting) {
    // The listener or its process has gone. On a network the request would be
    // sent again and find nobody, so the event is the same here.
    Fail(endpoint, RDMA_CM_EVENT_REJECTED, kInvalidServiceId, closing);
    return;
  }
  if (state == CmState::kRequested) return;  // Accept() will tell the user.
  if (endpoint.qp != nullptr) {
    ConnectedQueuePair& queue_pair = *ConnectedQueuePair::From(endpoint.qp);
    if (state == CmState::kClosed) {
      queue_pair.OnLinkEnd();
    } else {
      queue_pair.OnPeerGone();
    }
  }
  if (state == CmState::kClosed) return;
  endpoint.Transition(CmState::kClosed);
  if (state == CmState::kEstablished) {
    events_.Post(endpoint, RDMA_CM_EVENT_DISCONNECTED);
  } else {
    events_.Post(endpoint, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
  }
}

int ConnectionHandshake::ConnectQueuePair(CmEndpoint& endpoint, LinkSide side,
                                          bool peer_drives_its_own) {
  ConnectedQueuePair& queue_pair = *ConnectedQueuePair::From(endpoint.qp);
  if (peer_drives_its_own) {
    queue_pair.ConnectManuallyAtOnce();
  } else {
    // Before the queue pair gets ready: packets of the peer wait in the ring
    // until then.
    queue_pair.AttachLink(*std::move(endpoint.connection.link), side,
                          endpoint.socket.get(),
                          std::move(endpoint.connection.driver));
  }
  endpoint.connection.link.reset();
  return MoveToReadyToSend(endpoint.qp, TermsOf(endpoint));
}

CmQueuePairTerms ConnectionHandshake::TermsOf(
    const CmEndpoint& endpoint) const {
  CmQueuePairTerms terms = endpoint.connection.terms;
  terms.path = addresses_.PathTo(endpoint, GidOf(endpoint.Peer()), kHopLimit);
  terms.ack_timeout = endpoint.ack_timeout;
  return terms;
}

void ConnectionHandshake::Fail(CmEndpoint& endpoint, rdma_cm_event_type type,
                               int status, ClosingSockets& closing) {
  endpoint.Transition(CmState::kClosed);
  endpoint.connection.link.reset();
  if (endpoint.qp != nullptr) {
    // The queue pair must let go of the socket before the socket is closed.
    ConnectedQueuePair::From(endpoint.qp)->DetachLink();
    MoveToError(endpoint.qp);
  }
  closing.Add(std::move(endpoint.socket));
  // A rejection always has private data, which are zeros here.
  const bool rejected = type == RDMA_CM_EVENT_REJECTED;
  events_.Post(endpoint, MessageEvent(type, status, CmMessage(),
                                      rejected ? kRejectDataBytes : 0));
}

void ConnectionHandshake::End(CmEndpoint& endpoint, ClosingSockets& closing) {
  if (endpoint.state == CmState::kRequested) {
    // Nobody will answer the peer any more. It is told what the kernel's
    // manager would tell it.
    SendCmMessage(endpoint.socket.get(), {.type = CmMessageType::kReject,
                                          .reject_reason = kConsumerReject});
  }
  // The user should have destroyed the queue pair. It must not ring a socket
  // that is closed.
  if (endpoint.qp != nullptr) {
    ConnectedQueuePair::From(endpoint.qp)->DetachLink();
  }
  closing.Add(std::move(endpoint.socket));
  endpoint.connection.address_holder.Reset();
  endpoint.connection.link.reset();
}

}  // namespace verbena::soft
