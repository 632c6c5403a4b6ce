// The slots of one connection's calls at the server.

#ifndef VERBENA_TRANSPORT_SERVER_SERVER_CALL_SLOTS_H_
#define VERBENA_TRANSPORT_SERVER_SERVER_CALL_SLOTS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/functional/function_ref.h"
#include "transport/server/server_call.h"
#include "transport/session/connection.h"
#include "transport/streams/message_stream.h"

namespace verbena::transport {

// Owns a ServerCall for each slot that the client has used, and knows which of
// them are open. Poller thread only.
class ServerCallSlots {
 public:
  // `calls` and `connection` must outlive it, and may still be under
  // construction.
  ServerCallSlots(ServerCalls& calls, Connection& connection,
                  ServerHandler& handler, uint32_t count)
      : calls_(calls),
        connection_(connection),
        handler_(handler),
        slots_(count) {}
  ServerCallSlots(const ServerCallSlots&) = delete;
  ServerCallSlots& operator=(const ServerCallSlots&) = delete;

  // Returns the call at the slot of `call_id`, of whatever state; null, after a
  // ProtocolError(), if there can't be such a slot.
  ServerCall* Find(uint32_t call_id) {
    const uint32_t slot = call_id & 0xffff;
    if (ABSL_PREDICT_FALSE(slot >= slots_.size() || slots_[slot] == nullptr)) {
      return FindSlow(slot);
    }
    return slots_[slot].get();
  }
  // Returns the call of a free slot, in which the client may begin one; null,
  // after a ProtocolError(), if it may not.
  ServerCall* FindFree(uint32_t call_id) {
    ServerCall* const call = Find(call_id);
    if (ABSL_PREDICT_TRUE(call != nullptr && !call->is_open())) return call;
    if (call != nullptr) {
      connection_.ProtocolError("it began a call in a slot that is in use");
    }
    return nullptr;
  }

  // A REQUEST has come: the call is open, until it is freed.
  void Open() { ++open_calls_; }
  void AddStream(ServerCall* call, std::unique_ptr<MessageStream> stream) {
    call->stream_part().messages = std::move(stream);
    ++open_streams_;
  }

  // Hands a request that is all here to the handler.
  void HandOver(ServerCall* call) {
    call->Transition(ServerCallState::kHandling);
    ++handling_;
    handler_.OnCall(call);
  }
  // The handler has finished the call: its request is over.
  void TakeBack(ServerCall* call) {
    CHECK(call->is_handled());
    --handling_;
    call->request().Release();
  }
  // The caller has lost interest in a call that its handler has.
  void TellHandlerOfCancel(ServerCall* call) { handler_.OnCancelled(call); }

  // Frees a call that was answered in the short way: it has nothing else.
  void FreePlain(ServerCall* call) {
    call->Transition(ServerCallState::kFree);
    --open_calls_;
  }
  void Free(ServerCall* call);

  // Calls whose RESPONSE has not been sent, and those of them that are streams.
  uint32_t open_calls() const { return open_calls_; }
  uint32_t open_streams() const { return open_streams_; }
  // Calls of which the handler has the pointer.
  uint32_t handling() const { return handling_; }

  void VisitOpen(absl::FunctionRef<void(ServerCall*)> visitor) const {
    for (const auto& call : slots_) {
      if (call != nullptr && call->is_open()) visitor(call.get());
    }
  }

 private:
  ServerCall* FindSlow(uint32_t slot);

  ServerCalls& calls_;
  Connection& connection_;
  ServerHandler& handler_;
  uint32_t open_calls_ = 0;
  uint32_t open_streams_ = 0;
  uint32_t handling_ = 0;
  std::vector<std::unique_ptr<ServerCall>> slots_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SERVER_SERVER_CALL_SLOTS_H_
