// The calls of one client's connection that the server knows of, by call id.

#ifndef VERBENA_TRANSPORT_CLIENT_CLIENT_CALL_SLOTS_H_
#define VERBENA_TRANSPORT_CLIENT_CLIENT_CALL_SLOTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/client/call_memory.h"
#include "transport/client/client_call.h"

namespace verbena::transport {

// The metadata of a call that have come in METADATA so far.
struct IncomingMetadata {
  std::string initial;
  std::string trailing;
  bool initial_whole = false;
  bool trailing_whole = false;
};

// A call that the server knows of, until its RESPONSE.
struct ClientCallSlot {
  // The slot's index in the low half, its generation in the high half.
  uint32_t call_id = 0;
  bool used = false;
  bool quarantined = false;   // It counts among those of its device.
  bool cancel_due = false;    // A CANCEL is to be sent.
  bool lease_wanted = false;  // A LEASE of lease_bytes is to be sent.
  uint32_t lease_bytes = 0;
  // Null if the call has ended for its caller while the server may still use
  // its memory: the slot is in quarantine.
  ClientCall* call = nullptr;
  CallMemory memory;
  std::unique_ptr<IncomingMetadata> metadata;  // Null if there are none.
};

// Call slots, as many as the server allows. A slot that is used again has a new
// generation, so that a late frame is never taken for one of the new call. Not
// thread-safe: confined to the poller's thread.
class ClientCallSlots {
 public:
  using Slot = ClientCallSlot;

  // REQUIRES: count <= 2^16; called once.
  void Resize(uint32_t count) {
    slots_.resize(count);
    free_.resize(count);
    free_count_ = count;
    for (uint32_t i = 0; i < count; ++i) {
      slots_[i].call_id = i;
      free_[i] = static_cast<uint16_t>(count - 1 - i);
    }
  }

  bool full() const { return free_count_ == 0; }
  size_t size() const { return slots_.size(); }

  // The slot that the next Take() gives. REQUIRES: !full().
  Slot& next() { return slots_[free_[free_count_ - 1]]; }
  // Takes it for `call`.
  void Take(ClientCall* call) {
    Slot& slot = next();
    --free_count_;
    slot.used = true;
    slot.call = call;
  }

  // Takes it, for a call that does not begin yet, out of what Take() gives.
  // Returns its index. REQUIRES: !full().
  uint32_t Reserve() { return free_[--free_count_]; }
  // Gives it back: it is next() now.
  void Unreserve(uint32_t index) {
    free_[free_count_++] = static_cast<uint16_t>(index);
  }
  // Gives next() a new call id, so that METADATA sent for the old one belong to
  // no call.
  void RenewNext() { next().call_id += kIndexMask + 1; }

  // The slot of an open call, or of one in quarantine; null if the server made
  // the number up.
  Slot* Find(uint32_t call_id) {
    const uint32_t index = IndexOf(call_id);
    if (index >= slots_.size()) return nullptr;
    Slot& slot = slots_[index];
    return slot.used && slot.call_id == call_id ? &slot : nullptr;
  }

  // The slot is free, and its call id will not come again soon. REQUIRES: its
  // memory is unused().
  void Free(Slot* slot) {
    slot->used = false;
    slot->cancel_due = false;
    slot->lease_wanted = false;
    free_[free_count_++] = static_cast<uint16_t>(IndexOf(slot->call_id));
    slot->call_id += kIndexMask + 1;
  }

  static uint32_t IndexOf(uint32_t call_id) { return call_id & kIndexMask; }
  Slot& at(uint32_t index) { return slots_[index]; }

  // Iterates over all slots, used or not.
  std::vector<Slot>::iterator begin() { return slots_.begin(); }
  std::vector<Slot>::iterator end() { return slots_.end(); }

 private:
  static constexpr uint32_t kIndexMask = 0xffff;

  std::vector<Slot> slots_;
  std::vector<uint16_t> free_;  // The first free_count_ are free slots.
  uint32_t free_count_ = 0;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CLIENT_CLIENT_CALL_SLOTS_H_
