#include "tests/fuzz/session_peer.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/base/check.h"
#include "transport/base/limits.h"
#include "transport/base/socket_address.h"
#include "transport/soft/soft_provider.h"
#include "transport/verbs/cm_event.h"

namespace verbena::transport {
namespace {

constexpr uint32_t kReceives = 20;
constexpr uint32_t kSends = 16;
constexpr uint32_t kSlotBytes = 2 * kBufferBytes;
constexpr uint64_t kReceiveTag = uint64_t{1} << 32;

ConnectionParameters ParametersWith(const std::string& data) {
  ConnectionParameters parameters;
  parameters.private_data = {reinterpret_cast<const uint8_t*>(data.data()),
                             data.size()};
  parameters.responder_resources = kReadDepth;
  return parameters;
}

FrameHeader HeaderOf(const std::string& frame) {
  FrameHeader header;
  std::memcpy(&header, frame.data(), sizeof(header));
  return header;
}

}  // namespace

const Provider& SessionPeer::Device() { return soft::SoftProvider(); }

SessionPeer::SessionPeer() : channel_(*EventChannel::Create(Device())) {}

SessionPeer::~SessionPeer() { Disconnect(); }

void SessionPeer::Disconnect() {
  if (!id_.has_value()) return;
  id_->Disconnect().IgnoreError();
  id_->DestroyQp();
  id_.reset();
  ended_ = true;
}

bool SessionPeer::Resolve(const base::SocketAddress& server) {
  id_.emplace(*CmId::Create(Device(), channel_));
  return id_->ResolveAddr({}, server, absl::Seconds(5)).ok();
}

bool SessionPeer::Connect(const std::string& private_data) {
  return id_->Connect(ParametersWith(private_data)).ok();
}

base::SocketAddress SessionPeer::Listen() {
  listener_.emplace(*CmId::Create(Device(), channel_));
  base::SocketAddress address = base::SocketAddress::Loopback(AF_INET, 0);
  CHECK(listener_->BindAddr(address).ok());
  CHECK(listener_->Listen(/*backlog=*/4).ok());
  address.set_port(listener_->SrcPort());
  return address;
}

bool SessionPeer::Accept(const std::string& private_data) {
  if (!SetUp(*std::exchange(request_, std::nullopt))) return false;
  ConnectionParameters parameters = ParametersWith(private_data);
  parameters.initiator_depth = kReadDepth;
  parameters.responder_resources = 0;
  return id_->Accept(parameters).ok();
}

bool SessionPeer::Reject(const std::string& private_data) {
  CmId id = *std::exchange(request_, std::nullopt);
  return id.Reject(ParametersWith(private_data).private_data).ok();
}

bool SessionPeer::SetUp(CmId id) {
  const VerbsOps& verbs = Device().verbs;
  pd_ = *ProtectionDomain::Create(verbs, id.context());
  cq_ = *CompletionQueue::Create(verbs, id.context(),
                                 static_cast<int>(kSends + kReceives), nullptr);
  arena_ = *RegisteredMemory::Create(pd_, kArenaBytes,
                                     IBV_ACCESS_LOCAL_WRITE |
                                         IBV_ACCESS_REMOTE_READ |
                                         IBV_ACCESS_REMOTE_WRITE);
  buffers_ = *RegisteredMemory::Create(
      pd_, size_t{kSends + kReceives} * kSlotBytes, IBV_ACCESS_LOCAL_WRITE);
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = attributes.recv_cq = cq_.get();
  attributes.cap = {kSends, kReceives, 1, 1, 0};
  attributes.qp_type = IBV_QPT_RC;
  attributes.sq_sig_all = 1;
  if (!id.CreateQp(pd_.get(), &attributes).ok()) return false;
  id_.emplace(std::move(id));
  for (uint32_t i = 0; i < kReceives; ++i) PostReceive(i);
  return true;
}

void SessionPeer::PostReceive(uint64_t index) {
  ibv_sge element = {};
  element.addr = reinterpret_cast<uintptr_t>(buffers_.data()) +
                 (kSends + index) * kSlotBytes;
  element.length = kSlotBytes;
  element.lkey = buffers_.lkey();
  ibv_recv_wr receive = {};
  receive.wr_id = kReceiveTag | index;
  receive.sg_list = &element;
  receive.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  (void)ibv_post_recv(id_->qp(), &receive, &bad);
}

ArenaDescriptor SessionPeer::arena() const {
  return {reinterpret_cast<uint64_t>(arena_.data()), arena_.size(),
          arena_.rkey()};
}

PeerLimits SessionPeer::TakeLimits(fuzz::FuzzInput& input) {
  constexpr uint32_t kFrames[] = {kBufferBytes, kMinBufferBytes, 1 << 20};
  constexpr uint16_t kFirstCredits[] = {1, 2, 16, 300};
  constexpr uint16_t kCalls[] = {kMaxOpenCalls, 1, 3};
  constexpr uint32_t kMessages[] = {1 << 20, 1, 9000, kMaxMessageBytes};
  PeerLimits limits;
  limits.buffer_bytes = kFrames[input.Below(3)];
  limits.credits = credits_ = kFirstCredits[input.Below(4)];
  limits.max_open_calls = kCalls[input.Below(3)];
  limits.max_receive_message_bytes = kMessages[input.Below(4)];
  return limits;
}

void SessionPeer::SendFrames(fuzz::FuzzInput& input,
                             const FrameSubjects& subjects) {
  const bool bold = input.Below(16) == 0;
  for (std::string& frame : TakeFrames(input, subjects)) {
    const bool has_credit =
        HeaderOf(frame).type == FrameType::kGrant ||
        static_cast<int32_t>(credit_limit_ - credited_sent_) > 0;
    if (!has_credit && !bold) return;
    Stamp(&frame);
    TakeDamage(input, &frame);
    PostSend(frame);
  }
}

void SessionPeer::SendSound(std::string frame) {
  Stamp(&frame);
  PostSend(frame);
}

void SessionPeer::Stamp(std::string* frame) {
  FrameHeader header = HeaderOf(*frame);
  header.credit_limit = credits_ + credited_received_;
  if (grants_read_) header.flags |= kFlagGrantRead;
  if (header.type != FrameType::kGrant) ++credited_sent_;
  std::memcpy(frame->data(), &header, sizeof(header));
}

void SessionPeer::PostSend(const std::string& frame) {
  ibv_send_wr request = {};
  request.opcode = IBV_WR_SEND;
  Post(request, frame);
}

void SessionPeer::PostRdma(ibv_wr_opcode opcode, uint64_t address,
                           uint32_t rkey, uint32_t bytes) {
  ibv_send_wr request = {};
  request.opcode = opcode;
  request.wr.rdma.remote_addr = address;
  request.wr.rdma.rkey = rkey;
  Post(request, std::string(std::min(bytes, kSlotBytes), 'w'));
}

void SessionPeer::Post(ibv_send_wr request, const std::string& data) {
  if (!id_.has_value() || !established_ || sent_ - sent_done_ == kSends) return;
  uint8_t* const out = buffers_.data() + (sent_ % kSends) * kSlotBytes;
  std::memcpy(out, data.data(), data.size());
  ibv_sge element = {};
  element.addr = reinterpret_cast<uintptr_t>(out);
  element.length = static_cast<uint32_t>(data.size());
  element.lkey = buffers_.lkey();
  request.sg_list = &element;
  request.num_sge = data.empty() ? 0 : 1;
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(id_->qp(), &request, &bad) == 0) ++sent_;
}

void SessionPeer::Count(const std::string& frame) {
  if (frame.size() < sizeof(FrameHeader)) return;
  const FrameHeader header = HeaderOf(frame);
  credit_limit_ = header.credit_limit;
  if (header.type == FrameType::kGrant) {
    grants_read_ = !grants_read_;
    return;
  }
  ++credited_received_;
  if (header.type == FrameType::kRequest) call_ids_.push_back(header.call_id);
  if (header.type == FrameType::kReturn) {
    ReturnHeader given = {};
    std::memcpy(&given, frame.data(), std::min(frame.size(), sizeof(given)));
    credited_received_ += given.credits;
  }
}

void SessionPeer::Poll() {
  ibv_wc completion;
  while (id_.has_value() && id_->qp() != nullptr &&
         cq_.Poll(absl::MakeSpan(&completion, 1)) == 1) {
    if ((completion.wr_id & kReceiveTag) == 0) {
      ++sent_done_;
    } else if (completion.status == IBV_WC_SUCCESS) {
      const uint64_t index = completion.wr_id & ~kReceiveTag;
      Count(std::string(reinterpret_cast<const char*>(buffers_.data()) +
                            (kSends + index) * kSlotBytes,
                        completion.byte_len));
      PostReceive(index);
    } else {
      ended_ = true;
    }
  }
  while (true) {
    const auto event = channel_.Poll();
    if (!event.ok() || !event->has_value()) return;
    HandleEvent(**event);
  }
}

void SessionPeer::HandleEvent(const CmEvent& event) {
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      ended_ = !id_->ResolveRoute(absl::Seconds(5)).ok();
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED: {
      CmId id = *std::exchange(id_, std::nullopt);
      resolved_ = SetUp(std::move(id));
      return;
    }
    case RDMA_CM_EVENT_CONNECT_REQUEST: {
      request_.emplace(CmId::Adopt(Device(), event.id));
      const auto request = DecodeConnectRequest(event.private_data());
      if (request.ok()) their_arena_ = request->arena;
      return;
    }
    case RDMA_CM_EVENT_ESTABLISHED:
      established_ = true;
      return;
    default:
      ended_ = true;
  }
}

}  // namespace verbena::transport
