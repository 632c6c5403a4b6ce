// The calls that a client's server knows of.

#ifndef VERBENA_TRANSPORT_CLIENT_SENT_CALLS_H_
#define VERBENA_TRANSPORT_CLIENT_SENT_CALLS_H_

#include <cstdint>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "transport/client/client_call.h"
#include "transport/client/client_call_slots.h"
#include "transport/client/client_shared.h"
#include "transport/wire/frame.h"

namespace verbena::transport {

// Gives calls their slots and takes them back, and sends what is due for them:
// a CANCEL, or a LEASE that the server has asked for.
//
// A call that was cancelled is over for its caller at once, but its slot and
// the arena memory that the server knows of stay in quarantine until the
// server's RESPONSE, or until the queue pair is gone. Poller thread only.
class SentCalls {
 public:
  SentCalls(ClientShared& shared, uint64_t max_reply_bytes)
      : shared_(shared),
        connection_(shared.connection),
        max_reply_bytes_(max_reply_bytes) {}
  SentCalls(const SentCalls&) = delete;
  SentCalls& operator=(const SentCalls&) = delete;

  // Makes the slots, as many as both sides allow. Once.
  void Open(uint32_t slots);
  // The queue pair is gone: gives back the memory of all.
  void FreeAll();

  // Calls that somebody still waits for.
  uint32_t live() const { return live_; }

  // `call` has the next slot from now on, and the server knows of it. Returns
  // its id.
  uint32_t Add(ClientCall* call) {
    const uint32_t call_id = shared_.slots.next().call_id;
    shared_.slots.Take(call);
    call->link().slot = ClientCallSlots::IndexOf(call_id);
    ++live_;
    shared_.NoteDeadline(call->request().deadline);
    return call_id;
  }
  // Returns the slot of the call that a frame answers, whose lease the server
  // can't write to any more if it has a window; null, after a ProtocolError(),
  // if there is none.
  ClientCallSlot* Find(const FrameHeader& header) {
    ClientCallSlot* const slot = shared_.slots.Find(header.call_id);
    if (ABSL_PREDICT_FALSE(slot == nullptr)) return FindFailed();
    if (ABSL_PREDICT_FALSE(slot->memory.window != nullptr) &&
        slot->memory.window->bound && !TakeBackLease(header, slot)) {
      return nullptr;
    }
    return slot;
  }
  // Frees the slot and ends its call, if there still is one, with a reply of so
  // many bytes.
  void End(ClientCallSlot* slot, const CallResponse& response, uint64_t bytes);
  // Ends the call of an open slot without waiting for the server.
  void Abandon(ClientCallSlot* slot, const absl::Status& reason);
  // Ends all calls, because the connection is closing.
  void FailAll(const absl::Status& reason);
  // Ends the calls whose deadline has passed.
  void EndExpired(absl::Time now);

  // Handles the frame by which the server asks for a lease.
  void HandlePending(absl::Span<const uint8_t> frame);
  bool has_due() const { return !due_.empty(); }
  // Sends what is due, as far as it can.
  void SendDue();
  // How many credits a new request leaves to others: what is due goes first,
  // unless it waits for something else.
  uint32_t Reserve() const {
    const size_t due = shared_.arenas.lease_waits() ? 0 : due_.size();
    return std::max(connection_.credit_flow().RequestReserve(),
                    static_cast<uint32_t>(due));
  }

  // Arena memory is short: OK if calls will give some back, else why it is of
  // no use to wait.
  absl::Status MemoryWillComeBack();
  // How many leases the server has.
  uint64_t CountLeases();

 private:
  ClientCallSlot* FindFailed();
  // The server has not invalidated the lease's window, so this side does,
  // unless the server says that it wrote there: false, and the connection ends.
  bool TakeBackLease(const FrameHeader& header, ClientCallSlot* slot);
  // Ends the slot's call for its caller: it is its owner's when this returns.
  ClientCall* TakeCall(ClientCallSlot* slot);
  // The server is done with a call that had ended before.
  void EndQuarantine(ClientCallSlot* slot);
  absl::Status TooLargeReply(uint64_t bytes) const;

  // A CANCEL or a LEASE is to be sent for the slot.
  void AddDue(const ClientCallSlot& slot);
  // False if what is due for the slot has to wait.
  bool SendDueOf(ClientCallSlot* slot);
  bool SendCancel(ClientCallSlot* slot);
  bool SendLease(ClientCallSlot* slot);

  ClientShared& shared_;
  Connection& connection_;  // The shared one.
  const uint64_t max_reply_bytes_;
  uint32_t live_ = 0;
  std::vector<uint16_t> due_;  // Slots with a CANCEL or LEASE to send.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CLIENT_SENT_CALLS_H_
