#include "transport/soft/services/datagram_service.h"

#include <netinet/in.h>
#include <sys/uio.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "transport/soft/address/cm_address.h"
#include "transport/soft/address/gid_table.h"
#include "transport/soft/base/datagram_socket.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/cm/cm_queue_pair.h"
#include "transport/soft/datagram/datagram_route.h"
#include "transport/soft/queues/queue_pair.h"

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

// Fills in what the transition to `attributes.qp_state` takes, as
// FillAttributes() does for connections.
int FillDatagramAttributes(ibv_qp_attr& attributes, int& mask) {
  const ibv_qp_state to = attributes.qp_state;
  attributes = {};
  attributes.qp_state = to;
  mask = IBV_QP_STATE;
  switch (to) {
    case IBV_QPS_INIT:
      attributes.port_num = kCmPort;
      attributes.qkey = RDMA_UDP_QKEY;
      mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
      return 0;
    case IBV_QPS_RTR:
      return 0;
    case IBV_QPS_RTS:
      mask |= IBV_QP_SQ_PSN;
      return 0;
    default:
      return EINVAL;
  }
}
}  // namespace

std::shared_ptr<CmEndpoint> DatagramService::MakeEndpoint() {
  auto endpoint = std::make_shared<ServiceEndpoint>();
  endpoint->port_space = this;
  endpoint->ps = RDMA_PS_UDP;
  endpoint->qp_type = IBV_QPT_UD;
  return endpoint;
}

// Datagrams need no peer, so nothing keeps the queue pair from RTS.
int DatagramService::PrepareQp(ibv_qp* qp) {
  for (const ibv_qp_state to : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    ibv_qp_attr attributes = {};
    attributes.qp_state = to;
    int mask = 0;
    int error = FillDatagramAttributes(attributes, mask);
    if (error == 0) error = QueuePair::From(qp)->Modify(attributes, mask);
    if (error != 0) return error;
  }
  return 0;
}

int DatagramService::InitQpAttr(CmEndpoint& endpoint, ibv_qp_attr& attributes,
                                int& mask) {
  return endpoint.verbs == nullptr ? EINVAL
                                   : FillDatagramAttributes(attributes, mask);
}

int DatagramService::Watch(CmEndpoint& endpoint) {
  return callbacks_.Watch(
      endpoint.socket.get(), endpoint,
      [this](CmEndpoint& watched, ClosingSockets& /*closing*/)
          ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) {
            OnReadable(ServiceEndpoint::From(watched));
          });
}

int DatagramService::Send(const CmEndpoint& endpoint,
                          const CmDatagram& datagram) {
  const base::SocketAddress peer = datagram.Destination();
  // Within the host no network is needed.
  if (IsReachedWithinHost(peer)) return DeliverCmDatagram(datagram);
  DatagramRoute route;
  route.destination = peer;
  route.source = endpoint.Local();
  const iovec part = {const_cast<CmDatagram*>(&datagram), sizeof(datagram)};
  return network_.Send(route, &part, 1);
}

int DatagramService::Connect(CmEndpoint& asking,
                             const rdma_conn_param* parameters,
                             ClosingSockets& /*closing*/) {
  ServiceEndpoint& endpoint = ServiceEndpoint::From(asking);
  if (endpoint.state != CmState::kRouteResolved) return EINVAL;
  CmDatagram question;
  if (!CopyData(parameters, kDatagramRequestDataBytes, question)) return EINVAL;
  if (const int error = Watch(endpoint); error != 0) return error;
  question.SetEnds(endpoint.Local(), endpoint.Peer());
  question.id = next_question_++;
  endpoint.datagram = question;
  endpoint.deadline = callbacks_.Now() + kAnswerTimeout;
  endpoint.Transition(CmState::kConnecting);
  // The answer comes by the port that all processes share.
  if (!IsReachedWithinHost(endpoint.Peer())) network_.Start();
  Ask(endpoint);
  return 0;
}

// Sends the question, and again at intervals until there is an answer. An error
// other than ECONNREFUSED counts as a question that was lost.
void DatagramService::Ask(ServiceEndpoint& endpoint) {
  const int error = Send(endpoint, endpoint.datagram);
  const bool may_come =
      callbacks_.Now() < endpoint.deadline - kAnswerTimeout + kListenerPause;
  if (error == ECONNREFUSED && !may_come) {
    endpoint.Transition(CmState::kClosed);
    events_.Post(endpoint, RDMA_CM_EVENT_UNREACHABLE, kServiceUnknown);
    return;
  }
  callbacks_.StartTimer(kAskInterval, endpoint,
                        [this](CmEndpoint& asking, ClosingSockets& /*closing*/)
                            ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) {
                              AskAgain(ServiceEndpoint::From(asking));
                            });
}

void DatagramService::AskAgain(ServiceEndpoint& endpoint) {
  if (endpoint.state != CmState::kConnecting) return;
  if (callbacks_.Now() < endpoint.deadline) {
    Ask(endpoint);
    return;
  }
  endpoint.Transition(CmState::kClosed);
  events_.Post(endpoint, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
}

int DatagramService::Listen(CmEndpoint& listener) {
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
  // The table of states has no shorter way to kEstablished.
  endpoint.Transition(CmState::kAccepting);
  Answer(ServiceEndpoint::From(endpoint), reply, CmState::kEstablished);
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
  Answer(ServiceEndpoint::From(endpoint), reply, CmState::kClosed);
  return 0;
}

void DatagramService::Answer(ServiceEndpoint& endpoint, CmDatagram reply,
                             CmState state) {
  reply.type = CmDatagramType::kReply;
  reply.id = endpoint.datagram.id;
  reply.SetEnds(endpoint.Local(), endpoint.Peer());
  // The reply is kept: if it is lost, the peer asks again and gets it again.
  endpoint.datagram = reply;
  endpoint.Transition(state);
  Send(endpoint, reply);
}

void DatagramService::OnReadable(ServiceEndpoint& endpoint) {
  for (int i = 0; i < kReadBatch; ++i) {
    // There is room for one byte more than a message, to notice a longer one.
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

// A question is known by the address of the asker and by its number. A new one
// becomes a request to the user; one that was taken already is answered again.
void DatagramService::OnQuestion(ServiceEndpoint& listener,
                                 const CmDatagram& question) {
  // An identifier that asks takes no questions itself.
  if (listener.state != CmState::kListening) return;
  auto& questions = listener.questions;
  const auto key = std::make_pair(question.Source().ToString(), question.id);
  const auto known = questions.find(key);
  if (known != questions.end()) {
    // The question has been asked again, so the answer, if there was one, has
    // been lost.
    const auto child = known->second.lock();
    // In kRequested the user has not answered yet.
    if (child != nullptr && child->state != CmState::kRequested) {
      Send(*child, child->datagram);
    }
    return;
  }
  // A question that is not taken is asked again, and may find room then.
  if (events_.UnreadRequests(listener) >= listener.listening.backlog ||
      !HasRoom(listener)) {
    return;
  }
  const auto child =
      std::static_pointer_cast<ServiceEndpoint>(addresses_.MakeRequested(
          listener, question.Destination(), question.Source()));
  if (child == nullptr) return;
  child->datagram = question;
  questions[key] = child;
  auto event = std::make_unique<CmEventRecord>(RDMA_CM_EVENT_CONNECT_REQUEST);
  event->SetServiceData(question.private_data);
  events_.PostRequest(listener, child, std::move(event));
}

// Forgets the questions whose identifier is gone, but only when there are too
// many: it has to look at all of them.
bool DatagramService::HasRoom(ServiceEndpoint& listener) {
  auto& questions = listener.questions;
  if (questions.size() < kQuestionsMax) return true;
  std::erase_if(questions,
                [](const auto& entry) { return entry.second.expired(); });
  return questions.size() < kQuestionsMax;
}

// Ends the question with the first answer to it, and tells the user how to
// reach the queue pair.
void DatagramService::OnAnswer(ServiceEndpoint& endpoint,
                               const CmDatagram& answer) {
  // A question that was asked more than once may be answered more than once,
  // and old answers may still be under way.
  if (endpoint.state != CmState::kConnecting ||
      answer.id != endpoint.datagram.id) {
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
  event->SetServiceData(
      std::span(answer.private_data).first(kDatagramReplyDataBytes));
  events_.Post(endpoint, std::move(event));
}

void DatagramService::End(CmEndpoint& endpoint, ClosingSockets& closing) {
  groups_.DetachQueuePair(ServiceEndpoint::From(endpoint));
  // Rejects the question, so that the peer does not wait for an answer in vain.
  if (endpoint.state == CmState::kRequested) Reject(endpoint, nullptr, 0);
  closing.Add(std::move(endpoint.socket));
}

}  // namespace verbena::soft
