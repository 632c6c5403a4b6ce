#include "transport/connection/client_session.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/limits.h"
#include "transport/base/status_macros.h"
#include "transport/connection/receive_slots.h"
#include "transport/wire/frame_codec.h"
#include "transport/wire/hello.h"

namespace verbena::transport {
namespace {

// How soon memory that was short is looked for again: the application gives
// Buffers back without telling.
constexpr absl::Duration kMemoryRetry = absl::Milliseconds(1);

// Polls that find everything there is of a connection that has the device to
// itself: what can be under way both ways, and some more.
constexpr int kPollsAtEnd =
    (kCredits + kSendQueueDepth) / ReceiveSlots::kPollBatch + 2;

constexpr char kUserAgent[] = "verbena-cpp/0.1";

absl::Status TooLarge(absl::string_view what, uint64_t bytes,
                      absl::string_view whose, uint64_t limit) {
  return absl::ResourceExhaustedError(absl::StrCat(
      what, " of ", bytes, " bytes is larger than ", whose, " of ", limit));
}

}  // namespace

ClientSession::ClientSession(Poller& poller, PollerDevice& device, CmId id,
                             uint32_t inline_bytes,
                             const EndpointOptions& options)
    : Connection(poller, device, std::move(id), inline_bytes, options,
                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                     IBV_ACCESS_REMOTE_WRITE) {}

ClientSession::~ClientSession() {
  DestroyQueuePair();
  CHECK_EQ(open_calls(), 0u);
  for (Slot& slot : slots_) FreeMemory(&slot);
}

// The connection manager may be faster than the completion queue, in which the
// answers stand that the server sent before: those calls did not fail.
void ClientSession::OnDisconnected(const absl::Status& reason) {
  for (int i = 0; i < kPollsAtEnd && state() <= ConnectionState::kOpen &&
                  device().Poll() > 0;
       ++i) {
  }
  Connection::OnDisconnected(reason);
}

absl::Status ClientSession::Begin(const ConnectReply& reply) {
  SetPeerLimits(reply.limits);
  const uint32_t calls =
      std::min<uint32_t>(kMaxOpenCalls, reply.limits.max_open_calls);
  slots_.resize(calls);
  due_.reserve(size_t{2} * calls);
  for (uint32_t i = calls; i > 0; --i) {
    free_slots_.push_back(static_cast<uint16_t>(i - 1));
  }
  RETURN_IF_ERROR(FixQueuePair());
  const std::string body = EncodeOptions({{kOptionUserAgent, kUserAgent}});
  FrameHeader header = PlainHeader(FrameType::kHello, 0);
  header.body_bytes = static_cast<uint32_t>(body.size());
  const uint32_t bytes = static_cast<uint32_t>(sizeof(header) + body.size());
  uint8_t* const out = BeginFrame(bytes, /*spare_credits=*/0);
  if (out == nullptr) {
    return absl::InternalError(
        absl::StrCat("the server ", peer(), " grants no credit for a HELLO"));
  }
  std::memcpy(out, &header, sizeof(header));
  std::memcpy(out + sizeof(header), body.data(), body.size());
  Send(bytes, /*signalled=*/true);
  return failure();
}

absl::Status ClientSession::CheckRequest(
    const ClientCall::Request& request) const {
  if (request.metadata_bytes > kMaxMetadataBytes) {
    return TooLarge("metadata", request.metadata_bytes, "the limit",
                    kMaxMetadataBytes);
  }
  const uint64_t bytes = request.message_bytes + request.attachment.size();
  if (bytes > options().max_send_message_bytes) {
    return TooLarge("a request", bytes,
                    "this client's limit for messages that it sends",
                    options().max_send_message_bytes);
  }
  if (bytes > peer_limits().max_receive_message_bytes) {
    return TooLarge("a request", bytes,
                    absl::StrCat("the limit of the server ", peer(),
                                 " for messages that it receives"),
                    peer_limits().max_receive_message_bytes);
  }
  return absl::OkStatus();
}

absl::Status ClientSession::TooLargeReply(uint64_t bytes) const {
  return TooLarge("a reply", bytes,
                  "this client's limit for messages that it receives",
                  options().max_receive_message_bytes);
}

absl::Status ClientSession::Refusal(const ClientCall::Request& request) const {
  absl::Status refusal = failure();
  if (refusal.ok() && !usable()) {
    refusal = absl::UnavailableError("the connection is not ready");
  }
  if (refusal.ok() && draining_) {
    refusal = absl::UnavailableError(
        absl::StrCat("the server ", peer(), " is shutting down"));
  }
  return refusal.ok() ? CheckRequest(request) : refusal;
}

bool ClientSession::Takes(const ClientCall::Request& request) const {
  const uint64_t bytes = request.message_bytes + request.attachment.size();
  return usable() && !draining_ &&
         request.metadata_bytes <= kMaxMetadataBytes &&
         bytes <= options().max_send_message_bytes &&
         bytes <= peer_limits().max_receive_message_bytes;
}

void ClientSession::Start(ClientCall* call) {
  call->slot_ = ClientCall::kIdle;
  if (__builtin_expect(!Takes(call->request()), 0)) {
    call->OnFailed(Refusal(call->request()));
    return;
  }
  ClientCallQueue& queue =
      Place(call->request()).all_inline() ? small_ : large_;
  if (queue.empty() && TrySend(call)) return;
  // TrySend() may have lost the connection.
  if (!failure().ok()) {
    call->OnFailed(failure());
    return;
  }
  call->slot_ = ClientCall::kQueued;
  queue.PushBack(call);
  NoteDeadline(call->request().deadline);
}

void ClientSession::Cancel(ClientCall* call, const absl::Status& reason) {
  CHECK(!reason.ok());
  if (call->slot_ == ClientCall::kQueued) {
    (Place(call->request()).all_inline() ? small_ : large_).Remove(call);
    call->slot_ = ClientCall::kIdle;
    call->OnFailed(reason);
  } else if (call->slot_ != ClientCall::kIdle) {
    Abandon(&slots_[call->slot_], reason);
    Pump();
  }
}

void ClientSession::Abandon(Slot* slot, const absl::Status& reason) {
  ClientCall* const call = std::exchange(slot->call, nullptr);
  --live_;
  slot->cancel_due = true;
  slot->lease_wanted = false;
  due_.push_back(static_cast<uint16_t>(SlotIndex(slot)));
  call->slot_ = ClientCall::kIdle;
  call->OnFailed(reason);
}

void ClientSession::OnClosing() {
  // What a call's end starts anew is refused with failure() at once.
  while (!small_.empty()) Cancel(small_.front(), failure());
  while (!large_.empty()) Cancel(large_.front(), failure());
  for (Slot& slot : slots_) {
    if (slot.call == nullptr) continue;
    ClientCall* const call = std::exchange(slot.call, nullptr);
    --live_;
    call->slot_ = ClientCall::kIdle;
    call->OnFailed(failure());
  }
}

absl::Status ClientSession::MemoryWillComeBack() {
  for (const Slot& slot : slots_) {
    if (slot.used && slot.holds_memory()) return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "no memory of the connection with ", peer(), " is left, of ",
      device().pool().registered_bytes(),
      " bytes, and no open call will give any back: the application holds it "
      "in Buffers, or the parts of the call do not fit together; drop some, or "
      "raise the limit for arenas"));
}

absl::Time ClientSession::NextDeadline() const {
  if (large_.empty() && !lease_waits_) return next_deadline_;
  return std::min(next_deadline_, poller().now() + kMemoryRetry);
}

void ClientSession::NoteDeadline(absl::Time deadline) {
  next_deadline_ = std::min(next_deadline_, deadline);
}

void ClientSession::TickMore(absl::Time now) {
  if (now < next_deadline_) {
    if (!large_.empty() || !due_.empty()) Pump();
    return;
  }
  next_deadline_ = absl::InfiniteFuture();
  const absl::Status expired =
      absl::DeadlineExceededError("the deadline of the call has passed");
  for (ClientCallQueue* queue : {&small_, &large_}) {
    ClientCall* call = queue->front();
    while (call != nullptr) {
      ClientCall* const next = ClientCallQueue::Next(call);
      if (call->request().deadline <= now) {
        // Its OnFailed() may change the queue: begin again.
        Cancel(call, expired);
        call = queue->front();
        continue;
      }
      NoteDeadline(call->request().deadline);
      call = next;
    }
  }
  for (Slot& slot : slots_) {
    if (slot.call == nullptr) continue;
    const absl::Time deadline = slot.call->request().deadline;
    if (deadline <= now) {
      Abandon(&slot, expired);
    } else {
      NoteDeadline(deadline);
    }
  }
  Pump();
}

void ClientSession::HandleWelcome(absl::Span<const uint8_t> frame) {
  if (state() != ConnectionState::kConnecting) {
    ProtocolError("it sent a second WELCOME");
    return;
  }
  const absl::StatusOr<std::vector<HelloOption>> server_options =
      DecodeOptions(FrameBody(frame));
  if (!server_options.ok()) {
    ProtocolError(server_options.status().message());
    return;
  }
  Transition(ConnectionState::kOpen);
}

}  // namespace verbena::transport
