#include "transport/server/server_call_slots.h"

#include "absl/status/status.h"

namespace verbena::transport {

ServerCall* ServerCallSlots::FindSlow(uint32_t slot) {
  if (slot >= slots_.size()) {
    connection_.ProtocolError("it used a call slot beyond the limit");
    return nullptr;
  }
  // The first call in a slot makes it; it stays.
  slots_[slot] = std::make_unique<ServerCall>(calls_);
  return slots_[slot].get();
}

// Gives back all that a call may hold, whatever its state. The object stays in
// its slot for the next call.
void ServerCallSlots::Free(ServerCall* call) {
  call->request().Release();
  call->reply().Release();
  call->reply().content.status = absl::OkStatus();
  call->metadata_part().initial_due = false;
  call->metadata_part().sent = 0;
  CallStream& stream = call->stream_part();
  if (stream.messages != nullptr) {
    // The stream must leave the line of its connection before it goes.
    stream.messages->Close();
    stream.messages.reset();
    stream.leases = {};
    --open_streams_;
  }
  call->Transition(ServerCallState::kFree);
  --open_calls_;
}

}  // namespace verbena::transport
