#include "transport/client/sent_calls.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace verbena::transport {

void SentCalls::Open(uint32_t slots) {
  shared_.slots.Resize(slots);
  due_.reserve(size_t{2} * slots);
}

void SentCalls::FreeAll() {
  for (ClientCallSlot& slot : shared_.slots) {
    shared_.arenas.Free(connection_.poller(), &slot.memory);
    if (slot.quarantined) EndQuarantine(&slot);
  }
}

// Leaves slots and memory alone, because the device may use the memory until
// the queue pair is gone: see FreeAll().
void SentCalls::FailAll(const absl::Status& reason) {
  for (ClientCallSlot& slot : shared_.slots) {
    if (slot.call != nullptr) TakeCall(&slot)->OnFailed(reason);
  }
}

// Looks at all slots, which happens only when the earliest deadline has passed.
void SentCalls::EndExpired(absl::Time now) {
  const absl::Status expired =
      absl::DeadlineExceededError("the deadline of the call has passed");
  for (ClientCallSlot& slot : shared_.slots) {
    if (slot.call == nullptr) continue;
    const absl::Time deadline = slot.call->request().deadline;
    if (deadline <= now) {
      Abandon(&slot, expired);
    } else {
      shared_.NoteDeadline(deadline);
    }
  }
}

ClientCallSlot* SentCalls::FindFailed() {
  connection_.ProtocolError("it answered a call that is not open");
  return nullptr;
}

absl::Status SentCalls::TooLargeReply(uint64_t bytes) const {
  return absl::ResourceExhaustedError(absl::StrCat(
      "a reply of ", bytes,
      " bytes is larger than this client's max_receive_message_bytes, ",
      max_reply_bytes_));
}

void SentCalls::EndQuarantine(ClientCallSlot* slot) {
  slot->quarantined = false;
  connection_.counters().quarantined_calls.Subtract();
}

// Looks at the slots only if the pool has given out memory: this runs in
// every tick.
uint64_t SentCalls::CountLeases() {
  if (shared_.arenas.pool().allocated_bytes() == 0) return 0;
  return static_cast<uint64_t>(std::count_if(
      shared_.slots.begin(), shared_.slots.end(),
      [](const ClientCallSlot& slot) { return !slot.memory.reply.empty(); }));
}

void SentCalls::Abandon(ClientCallSlot* slot, const absl::Status& reason) {
  ClientCall* const call = TakeCall(slot);
  slot->quarantined = true;
  connection_.counters().quarantined_calls.Add();
  slot->cancel_due = true;
  // The server hears of the CANCEL instead, and needs no lease for an error.
  slot->lease_wanted = false;
  AddDue(*slot);
  // Last, because it may start another call here, or destroy this one.
  call->OnFailed(reason);
}

// Slots in quarantine count too: their memory comes back with the RESPONSE.
absl::Status SentCalls::MemoryWillComeBack() {
  for (const ClientCallSlot& slot : shared_.slots) {
    if (slot.used && !slot.memory.empty()) return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "the memory for large messages of the connection with ",
      connection_.peer(), " (", shared_.arenas.pool().registered_bytes(),
      " bytes) has no room for this call, and no open call will free any: the "
      "application holds it in Buffers, or the parts of the call do not fit "
      "together; release Buffers, or raise ChannelOptions::max_arena_bytes"));
}

}  // namespace verbena::transport
