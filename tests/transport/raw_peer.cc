#include "tests/transport/raw_peer.h"

#include <array>
#include <cstddef>
#include <thread>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"
#include "transport/base/socket_address.h"
#include "transport/base/status_macros.h"
#include "transport/verbs/error.h"
#include "transport/verbs/work_completion.h"

namespace verbena::transport {
namespace {

using testing_support::kTestTimeout;
using testing_support::TestListenAddress;
using testing_support::TestProvider;

constexpr uint64_t kReceiveTag = uint64_t{1} << 32;

ConnectionParameters ParametersWith(const std::string& private_data) {
  ConnectionParameters parameters;
  parameters.private_data =
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(private_data.data()),
                          private_data.size());
  parameters.responder_resources = kReadDepth;
  return parameters;
}

absl::Status TooLate(absl::string_view what) {
  return absl::DeadlineExceededError(absl::StrCat("no ", what, " came"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RawPeer>> RawPeer::Create(
    const std::string& address, const Options& options) {
  ASSIGN_OR_RETURN(const base::SocketAddress server,
                   base::SocketAddress::ParseNumeric(address));
  ASSIGN_OR_RETURN(EventChannel channel, EventChannel::Create(TestProvider()));
  std::unique_ptr<RawPeer> peer =
      absl::WrapUnique(new RawPeer(options, std::move(channel)));
  ASSIGN_OR_RETURN(CmId id, CmId::Create(TestProvider(), peer->channel_));
  RETURN_IF_ERROR(id.ResolveAddr({}, server, kTestTimeout));
  RETURN_IF_ERROR(peer->AwaitEvent(RDMA_CM_EVENT_ADDR_RESOLVED).status());
  RETURN_IF_ERROR(id.ResolveRoute(kTestTimeout));
  RETURN_IF_ERROR(peer->AwaitEvent(RDMA_CM_EVENT_ROUTE_RESOLVED).status());
  RETURN_IF_ERROR(peer->SetUp(std::move(id)));
  return peer;
}

RawPeer::~RawPeer() {
  if (!id_.has_value()) return;
  id_->Disconnect().IgnoreError();
  id_->DestroyQp();
  id_.reset();
}

absl::Status RawPeer::SetUp(CmId id) {
  id_.emplace(std::move(id));
  const Provider& provider = TestProvider();
  ASSIGN_OR_RETURN(pd_,
                   ProtectionDomain::Create(provider.verbs, id_->context()));
  const uint32_t depth = options_.sends + options_.receives;
  ASSIGN_OR_RETURN(cq_,
                   CompletionQueue::Create(provider.verbs, id_->context(),
                                           static_cast<int>(depth), nullptr));
  ASSIGN_OR_RETURN(arena_, RegisteredMemory::Create(pd_, options_.arena_bytes,
                                                    options_.arena_access));
  ASSIGN_OR_RETURN(
      send_memory_,
      RegisteredMemory::Create(pd_, size_t{options_.sends} * kPeerBufferBytes,
                               IBV_ACCESS_LOCAL_WRITE));
  ASSIGN_OR_RETURN(receive_memory_,
                   RegisteredMemory::Create(
                       pd_, (options_.receives + size_t{1}) * kPeerBufferBytes,
                       IBV_ACCESS_LOCAL_WRITE));
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = cq_.get();
  attributes.recv_cq = cq_.get();
  attributes.cap.max_send_wr = options_.sends;
  attributes.cap.max_recv_wr = options_.receives + 1;
  attributes.cap.max_send_sge = 1;
  attributes.cap.max_recv_sge = 1;
  attributes.qp_type = IBV_QPT_RC;
  RETURN_IF_ERROR(id_->CreateQp(pd_.get(), &attributes));
  for (uint32_t i = 0; i < options_.receives; ++i) {
    RETURN_IF_ERROR(PostReceive(i));
  }
  return absl::OkStatus();
}

absl::Status RawPeer::PostReceive(uint64_t index) {
  ibv_sge element = {};
  element.addr = reinterpret_cast<uintptr_t>(receive_memory_.data()) +
                 index * kPeerBufferBytes;
  element.length = kPeerBufferBytes;
  element.lkey = receive_memory_.lkey();
  ibv_recv_wr receive = {};
  receive.wr_id = kReceiveTag | index;
  receive.sg_list = &element;
  receive.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(id_->qp(), &receive, &bad);
  return error == 0 ? absl::OkStatus() : ErrnoStatus("post_recv", "", error);
}

PeerLimits RawPeer::Limits() const {
  PeerLimits limits;
  limits.buffer_bytes = kBufferBytes;
  limits.credits = options_.credits;
  limits.max_open_calls = kDefaultMaxOpenCalls;
  limits.max_receive_message_bytes = kDefaultMaxMessageBytes;
  limits.max_metadata_bytes = kDefaultMaxMetadataBytes;
  return limits;
}

ConnectRequest RawPeer::Request() const {
  return {Limits(), {arena_address(), arena_bytes(), arena_rkey()}};
}

absl::StatusOr<CmEvent> RawPeer::AwaitEvent(rdma_cm_event_type type) {
  const absl::Time deadline = base::Now() + kTestTimeout;
  while (base::Now() < deadline) {
    ASSIGN_OR_RETURN(std::optional<CmEvent> event,
                     channel_.WaitEvent(deadline - base::Now()));
    if (!event.has_value()) continue;
    if (event->type == type || event->type == RDMA_CM_EVENT_REJECTED) {
      return *event;
    }
    RETURN_IF_ERROR(CmEventStatus(*event, "the peer"));
  }
  return TooLate(CmEventName(type));
}

absl::Status RawPeer::BeginConnect(const std::string& private_data) {
  return id_->Connect(ParametersWith(private_data));
}

absl::StatusOr<CmEvent> RawPeer::Connect(const std::string& private_data) {
  RETURN_IF_ERROR(BeginConnect(private_data));
  return AwaitAnswer();
}

absl::StatusOr<CmEvent> RawPeer::AwaitAnswer() {
  ASSIGN_OR_RETURN(CmEvent event, AwaitEvent(RDMA_CM_EVENT_ESTABLISHED));
  ended_ = event.type != RDMA_CM_EVENT_ESTABLISHED;
  return event;
}

absl::Status RawPeer::Open(const std::vector<HelloOption>& options) {
  ASSIGN_OR_RETURN(const CmEvent event,
                   Connect(EncodeConnectRequest(Request())));
  RETURN_IF_ERROR(CmEventStatus(event, "the server"));
  RETURN_IF_ERROR(DecodeConnectReply(event.private_data()).status());
  RETURN_IF_ERROR(
      Send(FrameText(Header(FrameType::kHello), EncodeOptions(options))));
  return Receive(FrameType::kWelcome).status();
}

absl::Status RawPeer::Accept(const std::string& private_data) {
  RETURN_IF_ERROR(BeginAccept(private_data));
  return AwaitEvent(RDMA_CM_EVENT_ESTABLISHED).status();
}

absl::Status RawPeer::BeginAccept(const std::string& private_data) {
  ConnectionParameters parameters = ParametersWith(private_data);
  parameters.initiator_depth = kReadDepth;
  parameters.responder_resources = 0;
  return id_->Accept(parameters);
}

absl::Status RawPeer::Reject(const std::string& private_data) {
  return id_->Reject(ParametersWith(private_data).private_data);
}

absl::Status RawPeer::AcceptAndWelcome(
    const std::vector<HelloOption>& options) {
  RETURN_IF_ERROR(Accept(EncodeConnectReply({Limits()})));
  RETURN_IF_ERROR(Receive(FrameType::kHello).status());
  return Send(FrameText(Header(FrameType::kWelcome), EncodeOptions(options)));
}

FrameHeader RawPeer::Header(FrameType type, uint32_t call_id) const {
  FrameHeader header = {};
  header.type = type;
  if (grants_read_) header.flags = kFlagGrantRead;
  header.credit_limit = options_.credits + credited_received_;
  header.call_id = call_id;
  return header;
}

RequestHeader RawPeer::InlineRequest(uint32_t call_id, uint64_t method,
                                     uint32_t bytes) const {
  RequestHeader request = {};
  request.frame = Header(FrameType::kRequest, call_id);
  request.method_id = method;
  request.timeout_us = kNoTimeout;
  request.message_bytes = bytes;
  return request;
}

RequestHeader RawPeer::ArenaRequest(uint32_t call_id, uint64_t method,
                                    uint32_t offset, uint32_t bytes) const {
  RequestHeader request = InlineRequest(call_id, method, bytes);
  request.frame.flags = kFlagMessageInArena;
  request.message_offset = offset;
  return request;
}

void RawPeer::CountCredits(const std::string& frame) {
  const auto header = HeaderOf<FrameHeader>(frame);
  credit_limit_ = header.credit_limit;
  if (header.type == FrameType::kGrant) {
    grants_read_ = !grants_read_;
    return;
  }
  ++credited_received_;
  if (header.type == FrameType::kReturn) {
    credited_received_ += HeaderOf<ReturnHeader>(frame).credits;
  }
}

absl::Status RawPeer::SpendCredit(std::string* frame) {
  if (frame->size() < sizeof(FrameHeader)) return absl::OkStatus();
  FrameHeader header = HeaderOf<FrameHeader>(*frame);
  if (header.type != FrameType::kGrant) {
    RETURN_IF_ERROR(PollUntil([this] {
      return ended_ || static_cast<int32_t>(credit_limit_ - credited_sent_) > 0;
    }));
    ++credited_sent_;
  }
  // A GRANT may have come after the header was made.
  header.flags &= static_cast<uint8_t>(~kFlagGrantRead);
  if (grants_read_) header.flags |= kFlagGrantRead;
  std::memcpy(frame->data(), &header, sizeof(header));
  return absl::OkStatus();
}

absl::Status RawPeer::Send(const std::string& text) {
  std::string frame = text;
  if (options_.keeps_to_credits) RETURN_IF_ERROR(SpendCredit(&frame));
  ibv_send_wr request = {};
  request.opcode = IBV_WR_SEND;
  return Post(request, frame);
}

absl::Status RawPeer::SendInvalidating(const std::string& text, uint32_t rkey) {
  std::string frame = text;
  if (options_.keeps_to_credits) RETURN_IF_ERROR(SpendCredit(&frame));
  ibv_send_wr request = {};
  request.opcode = IBV_WR_SEND_WITH_INV;
  request.invalidate_rkey = rkey;
  return Post(request, frame);
}

absl::Status RawPeer::Write(uint64_t address, uint32_t rkey,
                            const std::string& data) {
  ibv_send_wr request = {};
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma.remote_addr = address;
  request.wr.rdma.rkey = rkey;
  return Post(request, data);
}

absl::Status RawPeer::WriteWithImmediate(uint64_t address, uint32_t rkey,
                                         uint32_t bytes) {
  ibv_send_wr request = {};
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.wr.rdma.remote_addr = address;
  request.wr.rdma.rkey = rkey;
  return Post(request, std::string(bytes, 0));
}

// The number of READs may change while the send queue is drained.
absl::Status RawPeer::AllowOwnReads() {
  RETURN_IF_ERROR(Flush());
  ibv_qp_attr attributes = {};
  attributes.max_rd_atomic = kReadDepth;
  const auto modify = [&](ibv_qp_state state, int mask) -> absl::Status {
    attributes.qp_state = state;
    const int error = TestProvider().verbs.modify_qp(id_->qp(), &attributes,
                                                     IBV_QP_STATE | mask);
    return error == 0 ? absl::OkStatus() : ErrnoStatus("modify_qp", "", error);
  };
  RETURN_IF_ERROR(modify(IBV_QPS_SQD, 0));
  RETURN_IF_ERROR(modify(IBV_QPS_SQD, IBV_QP_MAX_QP_RD_ATOMIC));
  return modify(IBV_QPS_RTS, 0);
}

absl::Status RawPeer::Read(uint64_t address, uint32_t rkey, uint32_t bytes) {
  ibv_send_wr request = {};
  request.opcode = IBV_WR_RDMA_READ;
  request.wr.rdma.remote_addr = address;
  request.wr.rdma.rkey = rkey;
  return Post(request, std::string(bytes, 0));
}

absl::Status RawPeer::FetchAdd(uint64_t address, uint32_t rkey) {
  ibv_send_wr request = {};
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.wr.atomic.remote_addr = address;
  request.wr.atomic.rkey = rkey;
  request.wr.atomic.compare_add = 1;
  return Post(request, std::string(sizeof(uint64_t), 0));
}

absl::Status RawPeer::Post(ibv_send_wr request, const std::string& data) {
  CHECK_LE(data.size(), kPeerBufferBytes);
  RETURN_IF_ERROR(
      PollUntil([this] { return sent_ - sent_done_ < options_.sends; }));
  RETURN_IF_ERROR(send_error_);
  uint8_t* const out = send_memory_.data() +
                       (sent_ % options_.sends) * uint64_t{kPeerBufferBytes};
  std::memcpy(out, data.data(), data.size());
  ibv_sge element = {};
  element.addr = reinterpret_cast<uintptr_t>(out);
  element.length = static_cast<uint32_t>(data.size());
  element.lkey = send_memory_.lkey();
  request.wr_id = sent_;
  request.sg_list = &element;
  request.num_sge = data.empty() ? 0 : 1;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(id_->qp(), &request, &bad);
  if (error != 0) return ErrnoStatus("post_send", "", error);
  ++sent_;
  return absl::OkStatus();
}

absl::Status RawPeer::Flush() {
  RETURN_IF_ERROR(PollUntil([this] { return sent_ == sent_done_; }));
  return send_error_;
}

absl::Status RawPeer::PollOnce() {
  while (true) {
    ibv_wc completion;
    const int count = cq_.Poll(absl::MakeSpan(&completion, 1));
    if (count < 0) return absl::InternalError("the completion queue failed");
    if (count == 0) break;
    const bool ok = completion.status == IBV_WC_SUCCESS;
    if ((completion.wr_id & kReceiveTag) == 0) {
      ++sent_done_;
      if (!ok && send_error_.ok()) {
        send_error_ =
            absl::UnavailableError(WorkCompletionText(completion.status));
      }
    } else if (ok) {
      const uint64_t index = completion.wr_id & ~kReceiveTag;
      received_.emplace_back(
          reinterpret_cast<const char*>(receive_memory_.data()) +
              index * kPeerBufferBytes,
          completion.byte_len);
      CountCredits(received_.back());
      if (!ended_ && options_.keep_receives) PostReceive(index).IgnoreError();
    } else {
      ended_ = true;
    }
  }
  ASSIGN_OR_RETURN(const std::optional<CmEvent> event, channel_.Poll());
  // A peer that disconnects before its connection manager has heard that the
  // connection is established sends a rejection.
  if (event.has_value() && (event->type == RDMA_CM_EVENT_DISCONNECTED ||
                            event->type == RDMA_CM_EVENT_REJECTED)) {
    ended_ = true;
    // As a correct peer does, so that the other one need not wait.
    id_->Disconnect().IgnoreError();
  }
  return absl::OkStatus();
}

absl::Status RawPeer::PollUntil(absl::FunctionRef<bool()> done) {
  const absl::Time start = base::Now();
  absl::Duration pause = absl::Milliseconds(10);
  while (!done()) {
    RETURN_IF_ERROR(PollOnce());
    const absl::Time now = base::Now();
    if (now >= start + kTestTimeout) return TooLate("progress");
    if (now >= start + pause) {
      Nudge();
      pause *= 2;
    }
    std::this_thread::yield();
  }
  return absl::OkStatus();
}

// While siw sets a connection up, it does not handle a message that comes until
// another one comes. So a HELLO may remain there: see ClientCalls::Nudge().
void RawPeer::Nudge() {
  const bool iwarp =
      id_->context()->device->transport_type == IBV_TRANSPORT_IWARP;
  if (!iwarp || ended_ || sent_ == 0 || sent_ - sent_done_ >= options_.sends) {
    return;
  }
  // If the WRITE fails, Send() and Flush() report that like a failed SEND.
  Write(0, 0, "").IgnoreError();
}

absl::StatusOr<std::string> RawPeer::Receive() {
  RETURN_IF_ERROR(PollUntil([this] { return !received_.empty() || ended_; }));
  ASSIGN_OR_RETURN(std::optional<std::string> frame, TryReceive());
  return frame.has_value() ? absl::StatusOr<std::string>(*std::move(frame))
                           : TooLate("frame");
}

absl::StatusOr<std::optional<std::string>> RawPeer::TryReceive() {
  const bool ended = ended_;
  // Frames that came before the end may still be in the completion queue.
  if (received_.empty()) RETURN_IF_ERROR(PollOnce());
  if (received_.empty()) {
    if (ended) return absl::UnavailableError("the connection has ended");
    return std::nullopt;
  }
  std::string frame = std::move(received_.front());
  received_.pop_front();
  return frame;
}

absl::StatusOr<std::string> RawPeer::Receive(FrameType type) {
  while (true) {
    ASSIGN_OR_RETURN(std::string frame, Receive());
    if (HeaderOf<FrameHeader>(frame).type == type) return frame;
  }
}

std::string RawPeer::AwaitBye() {
  const absl::StatusOr<std::string> bye = Receive(FrameType::kBye);
  if (!bye.ok()) {
    return absl::StrCat("no BYE (was the frame accepted?): ",
                        bye.status().ToString());
  }
  return bye->substr(sizeof(FrameHeader));
}

// A failed SEND tells of the end, too: the datagram of a DREQ may be lost.
absl::Status RawPeer::AwaitEnd() {
  return PollUntil([this] { return ended_ || !send_error_.ok(); });
}

absl::StatusOr<int> RawPeer::ReceiverNotReadyRetries() const {
  ibv_qp_attr attributes = {};
  ibv_qp_init_attr unused = {};
  const int error = TestProvider().verbs.query_qp(id_->qp(), &attributes,
                                                  IBV_QP_RNR_RETRY, &unused);
  if (error != 0) return ErrnoStatus("query_qp", "", error);
  return attributes.rnr_retry;
}

absl::StatusOr<std::unique_ptr<RawListener>> RawListener::Create() {
  const Provider& provider = TestProvider();
  ASSIGN_OR_RETURN(EventChannel channel, EventChannel::Create(provider));
  std::unique_ptr<RawListener> listener =
      absl::WrapUnique(new RawListener(std::move(channel)));
  ASSIGN_OR_RETURN(CmId id, CmId::Create(provider, listener->channel_));
  ASSIGN_OR_RETURN(base::SocketAddress address,
                   base::SocketAddress::ParseNumeric(TestListenAddress()));
  RETURN_IF_ERROR(id.BindAddr(address));
  RETURN_IF_ERROR(id.Listen(/*backlog=*/16));
  address.set_port(id.SrcPort());
  listener->address_ = address.ToString();
  listener->id_.emplace(std::move(id));
  return listener;
}

absl::StatusOr<std::unique_ptr<RawPeer>> RawListener::Next(
    const RawPeer::Options& options) {
  const absl::Time deadline = base::Now() + kTestTimeout;
  while (base::Now() < deadline) {
    ASSIGN_OR_RETURN(std::optional<CmEvent> event,
                     channel_.WaitEvent(deadline - base::Now()));
    if (!event.has_value() || event->type != RDMA_CM_EVENT_CONNECT_REQUEST) {
      continue;
    }
    CmId id = CmId::Adopt(TestProvider(), event->id);
    ASSIGN_OR_RETURN(EventChannel channel,
                     EventChannel::Create(TestProvider()));
    RETURN_IF_ERROR(id.MigrateTo(channel));
    std::unique_ptr<RawPeer> peer =
        absl::WrapUnique(new RawPeer(options, std::move(channel)));
    peer->connect_event_ = *event;
    RETURN_IF_ERROR(peer->SetUp(std::move(id)));
    return peer;
  }
  return TooLate("client");
}

}  // namespace verbena::transport
