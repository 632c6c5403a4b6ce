// ClientCalls: how they begin, are refused, cancelled and ended.

#include "transport/client/client_calls.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/limits.h"

namespace verbena::transport {
namespace {

// How soon memory that was short is looked for again: the application gives
// Buffers back without telling.
constexpr absl::Duration kMemoryRetry = absl::Milliseconds(1);

absl::Status TooLarge(absl::string_view what, uint64_t bytes,
                      absl::string_view limit, uint64_t most) {
  return absl::ResourceExhaustedError(absl::StrCat(
      what, " of ", bytes, " bytes is larger than ", limit, ", ", most));
}

}  // namespace

ClientCalls::ClientCalls(Poller& poller, PollerDevice& device,
                         MemoryDomain& memory, CmId id,
                         PollerDevice::QueuePair queue_pair,
                         const EndpointOptions& options,
                         std::function<void()> on_change)
    : on_change_(std::move(on_change)),
      max_reply_bytes_(options.max_receive_message_bytes),
      arenas_(memory.pool(), options.max_receive_message_bytes),
      streams_(connection_, *this),
      connection_(poller, device, memory, std::move(id), std::move(queue_pair),
                  options,
                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                      IBV_ACCESS_REMOTE_WRITE,
                  *this) {}

ClientCalls::~ClientCalls() {
  // Before the queue pair: rdma_rxe waits 50 s for those that are bound.
  arenas_.windows().Close();
  connection_.DestroyQueuePair();
  CHECK_EQ(open_calls(), 0u);
  ExpectWrite(INT64_MIN);
  for (Slot& slot : slots_) {
    arenas_.Free(connection_.poller(), &slot.memory);
    if (slot.quarantined) EndQuarantine(&slot);
  }
}

void ClientCalls::EndQuarantine(Slot* slot) {
  slot->quarantined = false;
  connection_.counters().quarantined_calls.Subtract();
}

uint64_t ClientCalls::CountLeases() {
  if (arenas_.pool().allocated_bytes() == 0) return 0;
  return static_cast<uint64_t>(std::count_if(
      slots_.begin(), slots_.end(),
      [](const Slot& slot) { return !slot.memory.reply.empty(); }));
}

void ClientCalls::OnGoAway() {
  if (std::exchange(draining_, true)) return;
  accepts_ = false;
  on_change_();
  connection_.SendGoAway();
  ReturnUnsent(WhyClosed());
}

void ClientCalls::ReturnUnsent(const absl::Status& why) {
  for (Queue* queue : {&waiting_small_, &waiting_large_}) {
    while (!queue->empty()) {
      ClientCall* const call = queue->front();
      queue->Remove(call);
      call->slot_ = ClientCall::kIdle;
      DropMetadata(call);
      call->OnUnsent(why);
    }
  }
}

void ClientCalls::StartSlow(ClientCall* call) {
  call->slot_ = ClientCall::kIdle;
  if (const absl::Status closed = WhyClosed(); !closed.ok()) {
    return call->OnUnsent(closed);
  }
  if (const absl::Status refusal = Refusal(call->request()); !refusal.ok()) {
    return call->OnFailed(refusal);
  }
  call->fits_frame_ = Place(call->request()).all_inline();
  const Queue& queue = call->fits_frame_ ? waiting_small_ : waiting_large_;
  if (queue.empty() && SendAny(call)) return;
  // Sending may have lost the connection.
  if (!connection_.failure().ok()) {
    DropMetadata(call);
    return call->OnUnsent(connection_.failure());
  }
  Wait(call);
}

absl::Status ClientCalls::WhyClosed() const {
  if (!connection_.failure().ok()) return connection_.failure();
  if (!connection_.usable()) {
    return absl::UnavailableError("the connection is not ready");
  }
  if (draining_) {
    return absl::UnavailableError(
        absl::StrCat("the server ", connection_.peer(), " is shutting down"));
  }
  return absl::OkStatus();
}

absl::Status ClientCalls::Refusal(const ClientCall::Request& request) const {
  const EndpointOptions& options = connection_.options();
  const uint64_t metadata_bytes =
      request.metadata_bytes + request.long_metadata.size();
  const uint32_t metadata_max = connection_.peer_limits().max_metadata_bytes;
  if (metadata_bytes > metadata_max) {
    return TooLarge("metadata", metadata_bytes,
                    absl::StrCat("the limit of the server ", connection_.peer(),
                                 " (SetMaxMetadataSize there)"),
                    metadata_max);
  }
  const uint64_t bytes = request.message_bytes + request.attachment.size();
  if (bytes > options.max_send_message_bytes) {
    return TooLarge("a request", bytes, "this client's max_send_message_bytes",
                    options.max_send_message_bytes);
  }
  const uint64_t most = connection_.peer_limits().max_receive_message_bytes;
  if (bytes > most) {
    return TooLarge("a request", bytes,
                    absl::StrCat("the limit of the server ", connection_.peer(),
                                 " (SetMaxReceiveMessageSize there)"),
                    most);
  }
  return absl::OkStatus();
}

absl::Status ClientCalls::TooLargeReply(uint64_t bytes) const {
  return TooLarge("a reply", bytes, "this client's max_receive_message_bytes",
                  max_reply_bytes_);
}

void ClientCalls::Cancel(ClientCall* call, const absl::Status& reason) {
  CHECK(!reason.ok());
  if (call->slot_ == ClientCall::kQueued) {
    (call->fits_frame_ ? waiting_small_ : waiting_large_).Remove(call);
    call->slot_ = ClientCall::kIdle;
    DropMetadata(call);
    call->OnFailed(reason);
  } else if (call->slot_ != ClientCall::kIdle) {
    Abandon(&slots_.at(call->slot_), reason);
    connection_.SendWaitingSoon();
  }
}

void ClientCalls::Abandon(Slot* slot, const absl::Status& reason) {
  ClientCall* const call = TakeCall(slot);
  slot->quarantined = true;
  connection_.counters().quarantined_calls.Add();
  slot->cancel_due = true;
  slot->lease_wanted = false;
  AddDue(*slot);
  call->OnFailed(reason);
}

void ClientCalls::OnClosing() {
  accepts_ = false;
  on_change_();
  const absl::Status& reason = connection_.failure();
  // A call that is started from inside OnUnsent() or OnFailed() is refused with
  // that reason at once.
  ReturnUnsent(reason);
  for (Slot& slot : slots_) {
    if (slot.call == nullptr) continue;
    TakeCall(&slot)->OnFailed(reason);
  }
}

absl::Status ClientCalls::MemoryWillComeBack() {
  for (const Slot& slot : slots_) {
    if (slot.used && !slot.memory.empty()) return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "no memory of the connection with ", connection_.peer(), " is left, of ",
      arenas_.pool().registered_bytes(),
      " bytes, and no open call will give any back: the application holds it "
      "in Buffers, or the parts of the call do not fit together; drop some, or "
      "raise the limit for arenas"));
}

absl::Time ClientCalls::NextTick() const {
  const bool short_of_memory = !waiting_large_.empty() || arenas_.lease_waits();
  const absl::Time look =
      short_of_memory ? absl::InfinitePast() : arenas_.NextLook();
  return std::min({next_deadline_, next_nudge_,
                   std::max(look, connection_.poller().now() + kMemoryRetry)});
}

void ClientCalls::OnTick(absl::Time now) {
  if (now >= next_nudge_) Nudge(now);
  if (now >= next_deadline_) EndExpired(now);
  if (!std::exchange(message_came_, false) && expected_bytes_ > 0) {
    ExpectWrite(INT64_MIN);
  }
  // Memory comes back without telling.
  if (!waiting_large_.empty() || !due_.empty()) SendWaiting();
  arenas_.GiveBackIdle(connection_, now);
  gauges_.Update(connection_.memory(), CountLeases());
}

absl::Status ClientCalls::NeverSent(bool large) const {
  std::string cause;
  if (slots_.full()) {
    cause = absl::StrCat(
        "all ", slots_.size(),
        " calls that the connection may have open were: others block at the "
        "server, or the limit is too low "
        "(ChannelOptions::max_concurrent_calls and "
        "ServerBuilder::SetMaxConcurrentCallsPerConnection)");
  } else if (large) {
    cause =
        "memory for large messages or credits were short "
        "(ChannelOptions::max_arena_bytes)";
  } else {
    cause = "the server gave no credit";
  }
  return absl::DeadlineExceededError(absl::StrCat(
      "the deadline of the call has passed before it was sent: ", cause));
}

void ClientCalls::EndExpired(absl::Time now) {
  next_deadline_ = absl::InfiniteFuture();
  const absl::Status expired =
      absl::DeadlineExceededError("the deadline of the call has passed");
  for (Queue* queue : {&waiting_small_, &waiting_large_}) {
    ClientCall* call = queue->front();
    while (call != nullptr) {
      ClientCall* const next = Queue::Next(call);
      if (call->request().deadline <= now) {
        // Its OnFailed() may change the queue: begin again.
        const absl::Status unsent = NeverSent(queue == &waiting_large_);
        unsent_.Say(absl::StrCat("a call to ", connection_.peer(), ": ",
                                 unsent.message()));
        Cancel(call, unsent);
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
}

}  // namespace verbena::transport
