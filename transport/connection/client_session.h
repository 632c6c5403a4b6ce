// The client's end of a connection: its open calls and what they hold.

#ifndef VERBENA_TRANSPORT_CONNECTION_CLIENT_SESSION_H_
#define VERBENA_TRANSPORT_CONNECTION_CLIENT_SESSION_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/connection/call_queue.h"
#include "transport/connection/client_call.h"
#include "transport/connection/connection.h"
#include "transport/connection/frame_assembly.h"
#include "transport/memory/buffer_pool.h"
#include "transport/wire/frame.h"
#include "transport/wire/placement.h"

namespace verbena::transport {

// Turns ClientCalls into REQUESTs and RESPONSEs into their ends.
//
// A call that was cancelled is over for its caller at once, but its slot and
// the arena memory that the server knows of stay in quarantine until the
// server's RESPONSE, or until the queue pair is gone. The device's pool is the
// arenas of this connection alone. Confined to the poller's role.
class ClientSession final : public Connection {
 public:
  ClientSession(Poller& poller, PollerDevice& device, CmId id,
                uint32_t inline_bytes, const EndpointOptions& options);
  ~ClientSession() override;

  // The server accepted: sends HELLO. The session is open when the WELCOME has
  // come.
  absl::Status Begin(const ConnectReply& reply);

  // See ClientConnection.
  void Start(ClientCall* call);
  void Cancel(ClientCall* call, const absl::Status& reason);

  bool draining() const { return draining_; }
  uint32_t open_calls() const { return live_ + small_.size() + large_.size(); }

 private:
  // One call that the server knows of.
  struct Slot {
    bool used = false;
    uint16_t generation = 0;
    ClientCall* call = nullptr;  // Null in quarantine.
    bool cancel_due = false;     // A CANCEL is to be sent.
    bool lease_wanted = false;   // A LEASE of lease_bytes is to be sent.
    uint32_t lease_bytes = 0;
    Buffer request;     // What the server reads: metadata and message,
    Buffer attachment;  // and the attachment.
    Buffer reply;       // What it may write: all of it.

    int64_t bytes = 0;  // Of these; the poller was told.

    bool holds_memory() const {
      return !request.empty() || !attachment.empty() || !reply.empty();
    }
  };

  void OnDisconnected(const absl::Status& reason) override;
  void HandleFrame(FrameType type, absl::Span<const uint8_t> frame) override;
  void Pump() override;
  void OnBulkDone(void* /*tag*/) override {}
  void OnClosing() override;
  void TickMore(absl::Time now) override;
  absl::Time NextDeadline() const override;
  bool ExpectsTraffic() const override { return live_ > 0; }
  void OnGoAway() override { draining_ = true; }

  // Whether a call may start now; if not, why.
  bool Takes(const ClientCall::Request& request) const;
  absl::Status Refusal(const ClientCall::Request& request) const;
  // OK if the call can be sent to this server, else why it never can.
  absl::Status CheckRequest(const ClientCall::Request& request) const;
  absl::Status TooLargeReply(uint64_t bytes) const;
  // What goes into the REQUEST itself.
  Placement Place(const ClientCall::Request& request) const;
  // How long the REQUEST is.
  static uint32_t RequestFrameBytes(const ClientCall::Request& request,
                                    Placement place);
  // Sends the call's REQUEST, or ends the call. False if it has to wait.
  bool TrySend(ClientCall* call);
  // Gets what the call needs into `slot`. If it returns false there is none
  // now, or with a `failure`, never; the slot may then hold a part.
  bool AllocateArenaMemory(const ClientCall::Request& request, Placement place,
                           Slot* slot, absl::Status* failure);
  bool AllocateLease(uint64_t bytes, Slot* slot, absl::Status* failure);
  // Arena memory is short: OK if calls will give some back, else why it is of
  // no use to wait.
  absl::Status MemoryWillComeBack();
  // `out` has room for all that is not in an arena. Returns how much that is.
  uint32_t WriteRequestFrame(ClientCall* call, Placement place,
                             uint32_t slot_index, uint8_t* out);
  void WriteAttachment(const ClientCall::Request& request, Placement place,
                       const Slot& slot, RequestHeader* header, uint8_t* out);
  // Tells the server of arenas that it does not know. False if that must wait.
  bool AnnounceArenas();
  // Sends CANCELs and LEASEs that are due.
  void PumpDue();
  // False if what is due for the slot has to wait.
  bool PumpSlot(uint32_t slot_index);
  using ClientCallQueue = CallQueue<ClientCall>;
  void PumpQueue(ClientCallQueue* queue);

  void HandleWelcome(absl::Span<const uint8_t> frame);
  // `whole`, if not null, is the memory of a frame that was continued.
  void HandleResponse(absl::Span<const uint8_t> frame, const Buffer* whole);
  // Ends the call of the slot, if there still is one, with a reply that has so
  // many bytes.
  void EndCall(Slot* slot, const CallResponse& response, uint64_t bytes);
  void HandlePart(absl::Span<const uint8_t> frame);
  // Finds the parts of a reply. Null, or what is wrong with them.
  const char* TakeReply(absl::Span<const uint8_t> frame, const Buffer* whole,
                        Buffer lease, CallResponse* response,
                        Buffer* attachment);
  void HandleResponsePending(absl::Span<const uint8_t> frame);
  // The slot of `call_id`; null, after a ProtocolError(), if there is none.
  Slot* FindSlot(uint32_t call_id);
  uint32_t SlotIndex(const Slot* slot) const;
  uint32_t CallId(uint32_t slot_index) const;
  // Ends the call of an open slot without waiting for the server.
  void Abandon(Slot* slot, const absl::Status& reason);
  void FreeSlot(uint32_t slot_index);
  void FreeMemory(Slot* slot);
  // The server knows of the slot's memory from now on.
  void NoteMemory(Slot* slot);
  void NoteDeadline(absl::Time deadline);

  std::vector<Slot> slots_;
  std::vector<uint16_t> free_slots_;
  uint32_t live_ = 0;          // Slots whose call is still waited for.
  std::vector<uint16_t> due_;  // Slots with a CANCEL or LEASE to send.
  // A LEASE waits for arena memory: requests leave that alone, because the
  // server has memory and work in the reply.
  bool lease_waits_ = false;

  // Calls that wait: for a slot or a credit, and for arena memory. Apart, so
  // that no large call holds up small ones.
  ClientCallQueue small_;
  ClientCallQueue large_;

  FrameAssembly assembly_;
  uint32_t arenas_known_ = 1;  // Arenas that the server was told of.
  bool draining_ = false;      // The server said GOAWAY.
  absl::Time next_deadline_ = absl::InfiniteFuture();
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CONNECTION_CLIENT_SESSION_H_
