// The client's end of a connection: its open calls.

#ifndef VERBENA_TRANSPORT_CLIENT_CLIENT_CALLS_H_
#define VERBENA_TRANSPORT_CLIENT_CLIENT_CALLS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/base/credentials.h"
#include "transport/base/rare_warning.h"
#include "transport/client/client_arenas.h"
#include "transport/client/client_call.h"
#include "transport/client/client_call_slots.h"
#include "transport/device/memory_gauges.h"
#include "transport/session/call_queue.h"
#include "transport/session/call_table.h"
#include "transport/session/connection.h"
#include "transport/session/frame_assembly.h"
#include "transport/streams/long_message.h"
#include "transport/streams/open_streams.h"
#include "transport/wire/hello.h"
#include "transport/wire/placement.h"

namespace verbena::transport {

// Turns ClientCalls into REQUESTs and RESPONSEs into their ends.
//
// A call that was cancelled is over for its caller at once, but its slot and
// the arena memory that the server knows of stay in quarantine until the
// server's RESPONSE, or until the queue pair is gone. Confined to the poller's
// thread.
class ClientCalls final : private CallTable, private LongMessageCarrier {
 public:
  // `on_change` is called when calls may be started, when the server says
  // GOAWAY, and when the connection begins to close: in the middle of things,
  // so it must not enter the connection.
  ClientCalls(Poller& poller, PollerDevice& device, MemoryDomain& memory,
              CmId id, PollerDevice::QueuePair queue_pair,
              const EndpointOptions& options, std::function<void()> on_change);
  ~ClientCalls();

  Connection& connection() { return connection_; }
  const Connection& connection() const { return connection_; }

  // The server answered `request` with `reply`: sends HELLO. Calls may start
  // when the WELCOME has come.
  absl::Status Begin(const ConnectRequest& request, const ConnectReply& reply);

  // Before Begin(): leases have windows. Fails as LeaseWindows::Open().
  absl::Status LendThroughWindows() {
    return arenas_.LendThroughWindows(connection_.memory().pd());
  }

  // See ClientConnection.
  void Start(ClientCall* call) {
    if (IsSmall(call->request()) && waiting_small_.empty() && SendSmall(call)) {
      return;
    }
    StartSlow(call);
  }
  void Cancel(ClientCall* call, const absl::Status& reason);

  // The server said GOAWAY, and so does this side: no REQUEST is sent any more.
  bool draining() const { return draining_; }
  bool wants_method_names() const { return wants_method_names_; }
  uint32_t open_calls() const {
    return live_ + waiting_small_.size() + waiting_large_.size();
  }

 private:
  using Slot = ClientCallSlot;
  using Queue = CallQueue<ClientCall>;

  // As the connection's table.
  void OnFrame(absl::Span<const uint8_t> frame, bool plain) override;
  bool SendWaiting() override;
  void OnInvalidated(uint32_t rkey) override {
    arenas_.windows().NoteInvalidated(rkey);
  }
  void OnTransferDone(void* tag) override {
    if (tag != nullptr) arenas_.OnTakenBack(connection_, tag);
  }
  void OnClosing() override;
  void OnTick(absl::Time now) override;
  absl::Time NextTick() const override;
  Keepalive::Silence silence() const override {
    return live_ > 0 ? Keepalive::Silence::kSuspicious
                     : Keepalive::Silence::kFine;
  }
  void OnGoAway() override;
  // The answers that the server sent before: those calls did not fail.
  bool WantsTheRest() const override { return true; }

  // --- Before calls: see client_calls_hello.cc ---

  // A frame that came before the WELCOME had.
  void HandleOpening(absl::Span<const uint8_t> frame);
  void HandleCredentials(absl::Span<const uint8_t> frame);
  void HandleWelcome(absl::Span<const uint8_t> frame);
  // OK unless the server must show more than that.
  absl::Status CheckServer(const std::vector<HelloOption>& server_options);
  // OK unless the sides do not agree on checksums.
  absl::Status AgreeOnSums(const std::vector<HelloOption>& server_options);
  absl::Status SendOpening(FrameType type, absl::string_view body);
  void Nudge(absl::Time now);

  // --- Starting calls ---

  // Whether calls may start, and the request goes the short way: it is all in
  // the frame and needs no memory of the arenas.
  bool IsSmall(const ClientCall::Request& request) const {
    return FitsFrame(request) && request.long_metadata.empty();
  }
  // As IsSmall(), for a request whose long metadata, if it has any, are sent.
  bool FitsFrame(const ClientCall::Request& request) const {
    return accepts_ && request.message_bytes <= small_bytes_max_ &&
           request.metadata_bytes <= small_metadata_max_ &&
           request.metadata_bytes + request.message_bytes <= small_bytes_max_ &&
           request.attachment.empty() &&
           request.reply_hint_bytes <= kFrameReplyBytes;
  }
  // Sends the REQUEST of a call that IsSmall(); false if it has to wait.
  bool SendSmall(ClientCall* call);
  // Sends the REQUEST of any call, or ends the call; false if it has to wait.
  bool SendAny(ClientCall* call) {
    return call->request().long_metadata.empty() ? SendRequest(call)
                                                 : SendBehindMetadata(call);
  }
  bool SendRequest(ClientCall* call);
  // As SendRequest(), but sends the long metadata first.
  // See client_calls_metadata.cc.
  bool SendBehindMetadata(ClientCall* call);
  // Sends as much of the long metadata as it can, to a slot that is reserved.
  // Returns false if that is not all.
  bool SendMetadata(ClientCall* call);
  // The call does not begin here. Frees the slot that was reserved for its
  // metadata, and has the server forget those that were sent.
  void DropMetadata(ClientCall* call);
  // Sends, waits or refuses.
  void StartSlow(ClientCall* call);
  // The call waits in line until SendWaiting() finds room for it.
  void Wait(ClientCall* call);
  // How many credits a new request leaves to others: what is due goes first,
  // unless it waits for something else.
  uint32_t Reserve() const {
    const size_t due = arenas_.lease_waits() ? 0 : due_.size();
    return std::max(connection_.RequestReserve(), static_cast<uint32_t>(due));
  }
  // Binds a window to the lease in `memory` ahead of a REQUEST of that length,
  // which can then be sent; false if there is no room for both.
  bool Lend(uint64_t frame_bytes, uint32_t spare_credits, CallMemory* memory);
  // Which parts of the request go into the frame.
  Placement Place(const ClientCall::Request& request) const;
  // Arena memory is short: OK if calls will give some back, else why it is of
  // no use to wait.
  absl::Status MemoryWillComeBack();
  // The call has the next slot from now on, and the server knows of it.
  uint32_t TakeSlot(ClientCall* call);

  // Why no call may start now; OK if one may.
  absl::Status WhyClosed() const;
  // Why this call may not start; OK if it may.
  absl::Status Refusal(const ClientCall::Request& request) const;
  absl::Status TooLargeReply(uint64_t bytes) const;

  // --- Ending calls ---

  // A RESPONSE that is a message and nothing else.
  void HandlePlainResponse(absl::Span<const uint8_t> frame);
  // Any other. `whole`, if not null, is the memory of a frame that was
  // continued.
  void HandleResponse(absl::Span<const uint8_t> frame, const Buffer* whole);
  // False, and ends the connection, if a reply's parts in its lease are not
  // what was meant.
  bool CheckParts(uint8_t flags, absl::Span<const uint8_t> message,
                  absl::Span<const uint8_t> attachment);
  void HandlePart(absl::Span<const uint8_t> frame);
  void HandleMetadata(absl::Span<const uint8_t> frame);
  // The response has those that came before it, if they are all there; false,
  // after a ProtocolError(), if it has others as well.
  bool AddTrailing(const IncomingMetadata& metadata, CallResponse* response);
  void HandleData(absl::Span<const uint8_t> frame);
  void HandleWindow(absl::Span<const uint8_t> frame);
  // The slot of the stream that this frame is about, if anybody waits for it;
  // null if not, or after a ProtocolError().
  Slot* FindStream(const FrameHeader& header);
  void HandleResponsePending(absl::Span<const uint8_t> frame);

  // --- Long messages of streams: see client_calls_long_messages.cc ---

  Outcome SendLong(uint32_t call_id, LongMessage* message) override;
  Outcome SendLease(uint32_t call_id, uint64_t bytes, uint64_t unread) override;
  // A server's MESSAGEs are here when they are told.
  bool StartRead(uint32_t /*call_id*/, uint64_t /*number*/,
                 IncomingMessage* /*message*/) override {
    return false;
  }
  void HandleLongMessage(absl::Span<const uint8_t> frame);
  // The server gives a lease back that is too short.
  void HandleLease(absl::Span<const uint8_t> frame);
  // Takes that lease of the stream; empty if there is none.
  static Buffer TakeLease(Slot* slot, uint16_t arena, uint32_t offset);
  // The server has read as many MESSAGEs as that limit says; null, or what is
  // wrong with it.
  static const char* ReleaseSent(Slot* slot, uint64_t message_limit);
  static StreamMemory& StreamMemoryOf(Slot* slot);
  // Tells the poller that the server may soon write a lease of so many bytes;
  // or if they are negative that it has.
  void ExpectWrite(int64_t lease_bytes);
  // The slot of the call that this frame answers, whose lease the server can't
  // write to any more if it has a window; null, after a ProtocolError(), if
  // there is none.
  Slot* FindSlot(const FrameHeader& header);
  // The server has not invalidated the lease's window, so this side does,
  // unless the server says that it wrote there: false, and the connection ends.
  bool TakeBackLease(const FrameHeader& header, Slot* slot);
  // The call of a slot ends: it is its owner's again when this returns.
  ClientCall* TakeCall(Slot* slot);
  // Frees the slot and ends its call, if there still is one, with a reply of so
  // many bytes.
  void EndCall(Slot* slot, const CallResponse& response, uint64_t bytes);
  // Ends the calls that wait for room: they will find none here.
  void ReturnUnsent(const absl::Status& why);
  // Ends the call of an open slot without waiting for the server.
  void Abandon(Slot* slot, const absl::Status& reason);
  // Ends the calls whose deadline has passed.
  void EndExpired(absl::Time now);
  // How a call ends that waited for too long; `large` is the line it was in.
  absl::Status NeverSent(bool large) const;

  // --- What waits ---

  // How many leases the server has.
  uint64_t CountLeases();
  // The server is done with a call that had ended before.
  void EndQuarantine(Slot* slot);
  // A CANCEL or a LEASE is to be sent for the slot.
  void AddDue(const Slot& slot);
  void SendDue();
  // False if what is due for the slot has to wait.
  bool SendDueOf(Slot* slot);
  bool SendCancel(Slot* slot);
  bool SendLease(Slot* slot);
  void SendQueued(Queue* queue);
  void NoteDeadline(absl::Time deadline) {
    next_deadline_ = std::min(next_deadline_, deadline);
  }

  const std::function<void()> on_change_;
  bool accepts_ = false;  // The connection is open and the server not draining.
  bool draining_ = false;            // The server said GOAWAY.
  bool wants_method_names_ = false;  // The server's WELCOME said so.
  // The longest metadata and message together that go the short way.
  uint64_t small_bytes_max_ = 0;
  // The longest metadata that do.
  uint64_t small_metadata_max_ = 0;
  uint64_t max_reply_bytes_;  // The longest reply that is accepted.
  uint32_t live_ = 0;         // Slots whose call is still waited for.
  // Calls that wait: for a slot or a credit, and for arena memory. Apart, so
  // that no large call holds up small ones.
  Queue waiting_small_;
  Queue waiting_large_;
  // The earliest deadline of all calls, also of those that wait.
  absl::Time next_deadline_ = absl::InfiniteFuture();
  // On iWARP: when Nudge() is due, and the pause until the next time. Most
  // servers have answered before the first time.
  static constexpr absl::Duration kFirstNudge = absl::Milliseconds(5);
  static constexpr absl::Duration kLongestNudge = absl::Seconds(1);
  absl::Time next_nudge_ = absl::InfiniteFuture();
  absl::Duration nudge_pause_ = kFirstNudge;
  base::RareWarning unsent_;  // For calls that expired before they were sent.
  ClientCallSlots slots_;
  ClientArenas arenas_;
  std::vector<uint16_t> due_;  // Slots with a CANCEL or LEASE to send.
  FrameAssembly assembly_;
  OpenStreams streams_;
  // Bytes that ExpectWrite() has told the poller of, and whether a MESSAGE has
  // come since the last tick: if not, nobody should spin for one.
  int64_t expected_bytes_ = 0;
  bool message_came_ = false;
  // Until the WELCOME; null if this side has no credentials.
  std::unique_ptr<ClientHandshake> handshake_;
  std::string hellos_;  // The handshake is bound to them.
  Connection connection_;
  MemoryGauges gauges_{connection_.counters()};
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CLIENT_CLIENT_CALLS_H_
