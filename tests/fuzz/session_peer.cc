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
#include "transport/verbs/memory_window.h"

namespace verbena::transport {
namespace {

constexpr uint32_t kReceives = 20;
constexpr uint32_t kSlotBytes = 2 * kBufferBytes;
constexpr uint64_t kReceiveTag = uint64_t{1} << 32;

ConnectionParameters ParametersWith(const std::string& data) {
  ConnectionParameters parameters;
  parameters.private_data = {reinterpret_cast<const uint8_t*>(data.data()),
                             data.size()};
  parameters.responder_resources = kReadDepth;
  return parameters;
}

}  // namespace

const Provider& SessionPeer::Device() { return soft::SoftProvider(); }

SessionPeer::SessionPeer(const SessionSetup& setup)
    : setup_(setup), channel_(*EventChannel::Create(Device())) {}

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
  arena_ = *RegisteredMemory::Create(
      pd_, kArenaBytes,
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
          IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND);
  buffers_ = *RegisteredMemory::Create(
      pd_, size_t{kSends + kReceives} * kSlotBytes, IBV_ACCESS_LOCAL_WRITE);
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = attributes.recv_cq = cq_.get();
  attributes.cap = {kSends, kReceives, 1, 1, 0};
  attributes.qp_type = IBV_QPT_RC;
  attributes.sq_sig_all = 1;
  if (!id.CreateQp(pd_.get(), &attributes).ok()) return false;
  id_.emplace(std::move(id));
  if (!is_server()) {
    CHECK(client_memory_.Offer(arena()).ok());
    if (setup_.uses_lease_keys) CHECK(windows_.Open(pd_).ok());
  }
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
  constexpr uint16_t kCalls[] = {kDefaultMaxOpenCalls, 1, 3};
  constexpr uint32_t kMessages[] = {1 << 20, 1, 9000, kMaxMessageBytes};
  PeerLimits limits;
  limits.buffer_bytes = kFrames[input.Below(3)];
  limits.credits = credits_ = kFirstCredits[input.Below(4)];
  limits.max_open_calls = kCalls[input.Below(3)];
  limits.max_receive_message_bytes = kMessages[input.Below(4)];
  limits.max_metadata_bytes = kDefaultMaxMetadataBytes;
  return limits;
}

void SessionPeer::PostSend(const std::string& frame, uint32_t invalidates) {
  ibv_send_wr request = {};
  request.opcode = invalidates == 0 ? IBV_WR_SEND : IBV_WR_SEND_WITH_INV;
  request.invalidate_rkey = invalidates;
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
  if (!CanPost()) return;
  uint8_t* const out = buffers_.data() + (sent_ % kSends) * kSlotBytes;
  std::memcpy(out, data.data(), data.size());
  ibv_sge element = {};
  element.addr = reinterpret_cast<uintptr_t>(out);
  element.length = static_cast<uint32_t>(data.size());
  element.lkey = buffers_.lkey();
  request.sg_list = &element;
  request.num_sge = data.empty() ? 0 : 1;
  PostAsIs(request);
}

void SessionPeer::PostAsIs(ibv_send_wr request) {
  if (!CanPost()) return;
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(id_->qp(), &request, &bad) == 0) ++sent_;
}

void SessionPeer::Poll() {
  ibv_wc completion;
  while (id_.has_value() && id_->qp() != nullptr &&
         cq_.Poll(absl::MakeSpan(&completion, 1)) == 1) {
    if ((completion.wr_id & kReceiveTag) == 0) {
      ++sent_done_;
    } else if (completion.status == IBV_WC_SUCCESS) {
      OnReceive(completion);
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

void SessionPeer::OnReceive(const ibv_wc& completion) {
  if (const auto key = InvalidatedKey(completion)) {
    windows_.NoteInvalidated(*key);
    std::erase_if(bound_, [this](LeaseWindow* window) {
      windows_.GiveBack(window);
      return !window->bound;
    });
  }
  const uint64_t index = completion.wr_id & ~kReceiveTag;
  Count(std::string(reinterpret_cast<const char*>(buffers_.data()) +
                        (kSends + index) * kSlotBytes,
                    completion.byte_len));
  PostReceive(index);
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
      if (!request.ok()) return;
      their_arena_ = request->arena;
      CHECK(client_memory_.Offer(their_arena_).ok());
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
