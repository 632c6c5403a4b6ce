#include "transport/soft/cm/datagram_service.h"

#include <netinet/in.h>
#include <sys/uio.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "transport/soft/address/cm_address.h"
#include "transport/soft/address/datagram_route.h"
#include "transport/soft/address/gid_table.h"
#include "transport/soft/base/datagram_socket.h"
#include "transport/soft/base/limits.h"

namespace verbena::soft {
namespace {

// How long the other application may take to answer, and how often it is asked.
constexpr std::chrono::seconds kAnswerTimeout(5);
constexpr std::chrono::milliseconds kAskInterval(100);

// For how long it is asked although nobody has the address: there are programs
// that listen a moment after they have told their peers to come.
constexpr std::chrono::seconds kListenerPause(1);

// Messages taken in one callback, so that others have their turn.
constexpr int kReadBatch = 64;

// Questions that a listener remembers, so as not to take one for two.
constexpr size_t kQuestionsMax = 4096;

constexpr uint8_t kHopLimit = 64;  // As the kernel sets it for a route.

// False when the private data is too long.
bool CopyData(const rdma_conn_param* parameters, size_t bytes_max,
              CmDatagram& datagram) {
  if (parameters == nullptr || parameters->private_data == nullptr) return true;
  if (parameters->private_data_len > bytes_max) return false;
  std::memcpy(datagram.private_data.data(), parameters->private_data,
              parameters->private_data_len);
  return true;
}

}  // namespace

int DatagramService::Watch(CmEndpoint& endpoint) {
  return callbacks_.Watch(
      endpoint.socket.get(), endpoint,
      [this](CmEndpoint& watched, ClosingSockets& /*closing*/)
          ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) { OnReadable(watched); });
}

int DatagramService::Send(const CmEndpoint& endpoint,
                          const CmDatagram& datagram) {
  const base::SocketAddress peer = datagram.Destination();
  if (IsLocalAddress(peer)) return DeliverCmDatagram(datagram);
  DatagramRoute route;
  route.destination = peer;
  route.source = endpoint.Local();
  const iovec part = {const_cast<CmDatagram*>(&datagram), sizeof(datagram)};
  return network_.Send(route, &part, 1);
}

int DatagramService::Connect(CmEndpoint& endpoint,
                             const rdma_conn_param* parameters) {
  if (endpoint.state != CmState::kRouteResolved) return EINVAL;
  CmDatagram question;
  if (!CopyData(parameters, kDatagramRequestDataBytes, question)) return EINVAL;
  if (const int error = Watch(endpoint); error != 0) return error;
  question.SetEnds(endpoint.Local(), endpoint.Peer());
  question.id = next_question_++;
  endpoint.service.datagram = question;
  endpoint.deadline = callbacks_.Now() + kAnswerTimeout;
  endpoint.Transition(CmState::kConnecting);
  // The answer comes by the port that all processes share.
  if (!IsLocalAddress(endpoint.Peer())) network_.Start();
  Ask(endpoint);
  return 0;
}

void DatagramService::Ask(CmEndpoint& endpoint) {
  const int error = Send(endpoint, endpoint.service.datagram);
  const bool may_come =
      callbacks_.Now() < endpoint.deadline - kAnswerTimeout + kListenerPause;
  if (error == ECONNREFUSED && !may_come) {
    endpoint.Transition(CmState::kClosed);
    events_.Post(endpoint, RDMA_CM_EVENT_UNREACHABLE, kServiceUnknown);
    return;
  }
  callbacks_.StartTimer(
      kAskInterval, endpoint,
      [this](CmEndpoint& asking, ClosingSockets& /*closing*/)
          ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) { AskAgain(asking); });
}

void DatagramService::AskAgain(CmEndpoint& endpoint) {
  if (endpoint.state != CmState::kConnecting) return;
  if (callbacks_.Now() < endpoint.deadline) {
    Ask(endpoint);
    return;
  }
  endpoint.Transition(CmState::kClosed);
  events_.Post(endpoint, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
}

int DatagramService::Start(CmEndpoint& listener) {
  if (const int error = Watch(listener); error != 0) return error;
  network_.Start();
  return 0;
}

int DatagramService::Accept(CmEndpoint& endpoint,
                            const rdma_conn_param* parameters) {
  CmDatagram reply;
  if (endpoint.state != CmState::kRequested ||
      !CopyData(parameters, kDatagramReplyDataBytes, reply)) {
    return EINVAL;
  }
  // An identifier without a queue pair of its own offers the one that the user
  // names.
  if (endpoint.qp == nullptr && parameters == nullptr) return EINVAL;
  reply.qp_num =
      htonl(endpoint.qp != nullptr ? endpoint.qp->qp_num : parameters->qp_num);
  reply.qkey = htonl(RDMA_UDP_QKEY);
  endpoint.Transition(CmState::kAccepting);
  Answer(endpoint, reply, CmState::kEstablished);
  return 0;
}

int DatagramService::Reject(CmEndpoint& endpoint, const void* private_data,
                            uint8_t length) {
  rdma_conn_param parameters = {};
  parameters.private_data = private_data;
  parameters.private_data_len = length;
  CmDatagram reply;
  reply.status = kServiceRejected;
  if (endpoint.state != CmState::kRequested ||
      !CopyData(&parameters, kDatagramReplyDataBytes, reply)) {
    return EINVAL;
  }
  Answer(endpoint, reply, CmState::kClosed);
  return 0;
}

void DatagramService::Answer(CmEndpoint& endpoint, CmDatagram reply,
                             CmState state) {
  reply.type = CmDatagramType::kReply;
  reply.id = endpoint.service.datagram.id;
  reply.SetEnds(endpoint.Local(), endpoint.Peer());
  // The reply is kept: if it is lost, the peer asks again and gets it again.
  endpoint.service.datagram = reply;
  endpoint.Transition(state);
  Send(endpoint, reply);
}

void DatagramService::OnReadable(CmEndpoint& endpoint) {
  for (int i = 0; i < kReadBatch; ++i) {
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

void DatagramService::OnQuestion(CmEndpoint& listener,
                                 const CmDatagram& question) {
  if (listener.state != CmState::kListening) return;
  auto& questions = listener.listening.questions;
  const auto key = std::make_pair(question.Source().ToString(), question.id);
  const auto known = questions.find(key);
  if (known != questions.end()) {
    // The question has been asked again, so the answer, if there was one, has
    // been lost.
    const auto child = known->second.lock();
    if (child != nullptr && child->state != CmState::kRequested) {
      Send(*child, child->service.datagram);
    }
    return;
  }
  // A question that is not taken is asked again, and may find room then.
  if (events_.UnreadRequests(listener) >= listener.listening.backlog ||
      !HasRoom(listener)) {
    return;
  }
  const std::shared_ptr<CmEndpoint> child = addresses_.MakeRequested(
      listener, question.Destination(), question.Source());
  if (child == nullptr) return;
  child->service.datagram = question;
  questions[key] = child;
  auto event = std::make_unique<CmEventRecord>(RDMA_CM_EVENT_CONNECT_REQUEST);
  event->SetServiceData(question, kDatagramRequestDataBytes);
  events_.PostRequest(listener, child, std::move(event));
}

bool DatagramService::HasRoom(CmEndpoint& listener) {
  auto& questions = listener.listening.questions;
  if (questions.size() < kQuestionsMax) return true;
  std::erase_if(questions,
                [](const auto& entry) { return entry.second.expired(); });
  return questions.size() < kQuestionsMax;
}

void DatagramService::OnAnswer(CmEndpoint& endpoint, const CmDatagram& answer) {
  // A question that was asked more than once may be answered more than once,
  // and old answers may still be under way.
  if (endpoint.state != CmState::kConnecting ||
      answer.id != endpoint.service.datagram.id) {
    return;
  }
  const bool accepted = answer.status == kServiceAccepted;
  endpoint.Transition(accepted ? CmState::kEstablished : CmState::kClosed);
  auto event = std::make_unique<CmEventRecord>(
      accepted ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_UNREACHABLE,
      answer.status);
  if (accepted) {
    rdma_ud_param& parameters = event->param.ud;
    parameters.ah_attr =
        addresses_.PathTo(endpoint, GidOf(endpoint.Peer()), kHopLimit);
    parameters.qp_num = ntohl(answer.qp_num) & kQueuePairNumberMax;
    parameters.qkey = ntohl(answer.qkey);
  }
  event->SetServiceData(answer, kDatagramReplyDataBytes);
  events_.Post(endpoint, std::move(event));
}

void DatagramService::End(CmEndpoint& endpoint, ClosingSockets& closing) {
  // Rejects the question, so that the peer does not wait for an answer in vain.
  if (endpoint.state == CmState::kRequested) Reject(endpoint, nullptr, 0);
  closing.Add(std::move(endpoint.socket));
}

}  // namespace verbena::soft
