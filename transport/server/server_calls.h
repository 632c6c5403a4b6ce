// The server's end of a connection: the calls of one client.

#ifndef VERBENA_TRANSPORT_SERVER_SERVER_CALLS_H_
#define VERBENA_TRANSPORT_SERVER_SERVER_CALLS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/base/credentials.h"
#include "transport/memory/pool_account.h"
#include "transport/polling/poller_threads.h"
#include "transport/server/bulk_transfers.h"
#include "transport/server/server_call.h"
#include "transport/session/call_queue.h"
#include "transport/session/call_table.h"
#include "transport/session/connection.h"
#include "transport/session/frame_assembly.h"
#include "transport/session/stall_watch.h"
#include "transport/streams/long_message.h"
#include "transport/streams/open_streams.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"
#include "transport/wire/remote_arenas.h"

namespace verbena::transport {

// Turns REQUESTs into ServerCalls and their ends into RESPONSEs; READs large
// requests and WRITEs large replies.
//
// Memory that the client can reach is none: the queue pair allows no remote
// access. Every range that the client names is checked against its arenas.
// `handler` must outlive it. A client must show `credentials` before its first
// call, unless they are null. Confined to the poller's thread.
class ServerCalls final : private CallTable, private LongMessageCarrier {
 public:
  ServerCalls(Poller& poller, PollerThreads& threads, PollerDevice& device,
              CmId id, PollerDevice::QueuePair queue_pair,
              const EndpointOptions& options, const ConnectRequest& request,
              std::shared_ptr<const ServerCredentials> credentials,
              ServerHandler& handler);
  ~ServerCalls();

  Connection& connection() { return connection_; }
  const Connection& connection() const { return connection_; }

  // To be called right after Accept().
  absl::Status Begin() { return connection_.FixQueuePair(); }

  // Calls whose RESPONSE has not been sent.
  uint32_t open_calls() const { return open_calls_; }

  // Calls `visitor` for each of them.
  void VisitCalls(absl::FunctionRef<void(const ServerCall&)> visitor) const {
    for (const auto& call : calls_) {
      if (call != nullptr && call->is_open()) visitor(*call);
    }
  }

  // Whether further calls of the client are served. They are no more once it
  // has said GOAWAY, or after RefuseCalls(): those that come are answered with
  // the word that nothing was done about them.
  bool takes_calls() const { return intake_ == Intake::kServed; }
  void RefuseCalls() {
    if (takes_calls()) intake_ = Intake::kRefused;
  }

 private:
  friend class ServerCall;

  using State = ServerCall::State;

  // The treatment of a REQUEST that comes.
  enum class Intake : uint8_t {
    kServed,
    kRefused,    // Answered as not processed.
    kForbidden,  // The client has said that there would be none.
  };

  // As the connection's table.
  void OnFrame(absl::Span<const uint8_t> frame, bool plain) override;
  bool SendWaiting() override;
  void OnTransferDone(void* tag) override;
  void OnClosing() override;
  bool InUse() const override { return handling_ > 0; }
  void OnGoAway() override { intake_ = Intake::kForbidden; }
  // A BYE that says that bytes were damaged.
  bool WantsTheRest() const override { return connection_.expects_sums(); }
  void OnTick(absl::Time now) override;
  absl::Time NextTick() const override;
  // The client watches over its own calls; a silent one costs nothing but its
  // reservation, and is noticed all the same.
  Keepalive::Silence silence() const override {
    return open_calls_ > 0 ? Keepalive::Silence::kSuspicious
                           : Keepalive::Silence::kIdle;
  }

  // State of a client that must show credentials, until it is let in.
  struct Admission {
    std::shared_ptr<const ServerCredentials> credentials;
    ConnectRequest request;
    std::string hellos;  // The handshake is bound to them.
    std::unique_ptr<ServerHandshake> handshake;  // From the HELLO on.
  };

  // --- Before calls: see server_calls_hello.cc ---

  // A frame that came before the client was let in.
  void HandleOpening(absl::Span<const uint8_t> frame);
  void HandleHello(absl::Span<const uint8_t> frame);
  // OK unless the client wants checksums that this side does not have.
  absl::Status AgreeOnSums(const std::vector<HelloOption>& client_options);
  // Begins the handshake, or refuses the client.
  void BeginHandshake(absl::string_view hello_body,
                      const std::vector<HelloOption>& client_options);
  // Goes on with the handshake.
  void HandleCredentials(absl::string_view message);
  // Lets the client in; `welcome` is the body of the WELCOME.
  void Admit(std::string welcome);
  // Sends the WELCOME or the CREDENTIALS that are due, if it can.
  void SendOpening();

  // A REQUEST that is a message and nothing else.
  void HandlePlainRequest(absl::Span<const uint8_t> frame);
  // Any REQUEST. `whole`, if not null, is the memory of a frame that
  // was continued.
  void HandleRequest(absl::Span<const uint8_t> frame, Buffer* whole);
  void HandlePart(absl::Span<const uint8_t> frame);
  // The call of a free slot that the client may begin one in; null, after a
  // ProtocolError(), if it may not.
  ServerCall* FindFreeCall(uint32_t call_id);
  // Begins a call: the part that all requests have in common.
  void BeginCall(const RequestHeader& header, ServerCall* call);
  absl::Time DeadlineAfter(uint64_t timeout_us) const;
  // Whether the ranges that a request names lie in the client's arenas.
  bool FindRanges(const RequestHeader& header, uint32_t lease_rkey,
                  ServerCall* call);
  void HandleArena(absl::Span<const uint8_t> frame);
  void HandleLease(absl::Span<const uint8_t> frame);
  void HandleCancel(absl::Span<const uint8_t> frame);

  // --- Metadata: see server_calls_metadata.cc ---

  void HandleMetadata(absl::Span<const uint8_t> frame);
  // Takes over what came before the REQUEST of a call, beside `inline_metadata`
  // in it. False, after a ProtocolError(), if they do not go together.
  bool TakeMetadata(uint32_t call_id, absl::Span<const uint8_t> inline_metadata,
                    ServerCall* call);
  void SendInitialMetadata(ServerCall* call, std::string metadata);
  // Whether the call has metadata that go in METADATA before its RESPONSE.
  static bool MetadataDue(const ServerCall& call) {
    return call.initial_due_ || !call.reply_.long_metadata.empty();
  }
  // Sends these metadata as far as it can; false if not all are sent.
  bool SendMetadata(ServerCall* call);
  bool SendMetadata(ServerCall* call, const std::string& metadata,
                    uint8_t flags);
  // Sends the initial metadata that wait, as far as it can.
  void SendInitialMetadata();
  absl::Status CheckMetadata(absl::string_view kind, uint64_t bytes) const;

  void HandleData(absl::Span<const uint8_t> frame);
  void HandleWindow(absl::Span<const uint8_t> frame);
  // The call of an open stream, if its messages are still wanted; null if not,
  // or after a ProtocolError().
  ServerCall* FindStream(uint32_t call_id);
  // Closes a stream that cannot be read further: its call ends with
  // the failure.
  void FailStream(ServerCall* call);
  void OpenStream(ServerCall* call);
  void CloseStream(ServerCall* call);
  // Takes a call that is kDraining out of its line.
  void StopDraining(ServerCall* call) {
    (call->initial_due_ ? initial_waiters_ : draining_).Remove(call);
  }
  // The handler of a call with a stream has returned: its RESPONSE goes behind
  // all that was written, or if `failure` is not OK is that, and goes when the
  // device is done with the client's memory.
  void FinishStream(ServerCall* call, const absl::Status& failure);
  // As FinishStream() with a failure, for a call that is kDraining already.
  void FailDraining(ServerCall* call, const absl::Status& failure);
  static bool IsDrained(const ServerCall& call) {
    return call.stream_transfers_ == 0 && call.stream_->sent_all();
  }
  // Sends the RESPONSEs of streams of which all else is sent.
  void FinishDrained();

  // --- Long messages of streams: see server_calls_long_messages.cc ---

  Outcome SendLong(uint32_t call_id, LongMessage* message) override;
  // The client lends, not the server.
  Outcome SendLease(uint32_t /*call_id*/, uint64_t /*bytes*/,
                    uint64_t /*unread*/) override {
    return Outcome::kWait;
  }
  bool StartRead(uint32_t call_id, uint64_t number,
                 IncomingMessage* message) override;
  void HandleLongMessage(absl::Span<const uint8_t> frame);
  void HandleStreamLease(const LeaseHeader& header, ServerCall* call);
  // Gives back a lease of the stream, all of which are too short.
  Outcome ReturnLease(ServerCall* call);
  Outcome StartLongWrite(ServerCall* call, const LongMessage& message,
                         Placement place);
  Outcome SendWritten(ServerCall* call, const LongMessage& message,
                      Placement place);
  void StartStreamTransfer(ServerCall* call, ibv_wr_opcode opcode,
                           const Buffer& local,
                           const RemoteArenas::RemoteRange& remote,
                           uint64_t number);
  // Called when all of a WRITE is posted, and when all of a READ is here.
  void OnStreamWritePosted(ServerCall* call);
  void OnStreamTransferDone(BulkTransfer* transfer);
  // The call, as long as its stream is open; else null.
  ServerCall* OpenStreamOf(uint32_t call_id);
  // Tries again what found no memory.
  void ServeReadWaiters();
  // The call at the slot of `call_id`, of whatever state; null, after a
  // ProtocolError(), if there can't be such a slot.
  ServerCall* FindCall(uint32_t call_id);

  // Takes a call that waits for memory, or for its turn to, out of the line.
  void StopWaiting(ServerCall* call);
  // Takes a call that waits for a lease out of the line.
  void StopAwaitingLease(ServerCall* call);
  // When the deadline has passed for the client as well, whose own may be that
  // much later.
  static absl::Time ExpiryOf(const ServerCall& call) {
    return call.deadline_ + Poller::kNowAgeMax;
  }
  // The call waits, for whatever it is: not beyond its deadline.
  void NoteExpiry(const ServerCall& call) {
    expiry_ = std::min(expiry_, ExpiryOf(call));
  }
  // Ends the calls that wait although their deadline has passed.
  void EndExpired(absl::Time now);
  // Ends `call`, which waits in `line`, with an error.
  void EndWaiting(CallQueue<ServerCall>& line, ServerCall* call,
                  const absl::Status& status);
  // Ends the connection if the client keeps it waiting for too long, and calls
  // whose replies it lends no memory for.
  void WatchClient(absl::Time now);
  // Credits that the replies and messages which wait now need, at the least.
  std::optional<StallWatch::Line> AwaitedCredits() const;
  void CloseStalled(absl::string_view what);
  // Gets a request out of the client's arenas, now or when it can.
  void AwaitRequest(ServerCall* call);
  // Memory of the bulk pool, if this connection may have so much more of it.
  absl::StatusOr<Buffer> AllocateBulk(size_t bytes) const;
  // As AllocateBulk(), for the parts of a request or a reply, if need be as two
  // parts of one block. Allocates all of it or nothing.
  absl::Status AllocateParts(uint64_t message_bytes, uint64_t attachment_bytes,
                             Buffer* message, Buffer* attachment);
  absl::Status AllocateApart(uint64_t message_bytes, uint64_t attachment_bytes,
                             Buffer* message, Buffer* attachment);
  // Moves a call that waits for memory on; false if it has to go on waiting.
  bool StartReads(ServerCall* call);
  // READs into all of `sink`, which must stay; its sum goes to `sum`, if frames
  // have any.
  void StartRead(ServerCall* call, const Buffer& sink,
                 const RemoteArenas::RemoteRange& source, uint32_t* sum);
  // Ends the connection if what was READ is not what was meant.
  void CheckParts(const ServerCall& call);
  // Tells the poller what is on its way.
  void NoteTransfer(int64_t bytes) {
    transfer_bytes_ += bytes;
    connection_.poller().NoteTransfer(bytes);
  }
  static void TakeInlineAttachment(ServerCall* call,
                                   absl::Span<const uint8_t> attachment,
                                   const Buffer* whole);
  // Copies a message that will be needed longer than its frame.
  void HoldMessage(ServerCall* call, absl::Span<const uint8_t> message);
  // Hands a request that is all here to the handler.
  void HandOver(ServerCall* call);
  void Finish(ServerCall* call, ServerCall::Reply&& reply);
  uint8_t* BeginPlainReply(ServerCall* call, uint64_t message_bytes);
  void SendPlainReply(ServerCall* call);
  void SendReply(ServerCall* call);
  // WRITEs a large reply for which there is a lease, when there is memory.
  void AwaitReplyMemory(ServerCall* call);
  // Gets it into registered memory and on its way; false if it has to wait for
  // memory.
  bool PlaceReply(ServerCall* call);
  void StartWrites(ServerCall* call);
  // WRITEs all of `source` to that place in the lease; `sum` as for
  // StartRead().
  void StartWrite(ServerCall* call, Buffer source, uint64_t lease_offset,
                  uint32_t* sum);
  static bool IsLargeRead(const ServerCall& call) {
    return uint64_t{call.request_bytes_} + call.attachment_bytes_ >=
           kLargeReadBytes;
  }
  // Returns the bytes of the reply that the lease must hold.
  static uint32_t LeaseNeeded(const ServerCall& call);
  // Takes the attachments of calls that wait out of registered memory, if that
  // was short since the last time: one that held memory while it waits for the
  // client, or for more memory, could wait for ever.
  void FreeHeldMemory();
  void FreeHeldMemory(CallQueue<ServerCall>& line);
  // The first call in a slot makes it; it stays.
  void MakeCallSlow(uint32_t slot);
  absl::Status TooLargeRequest(uint64_t bytes) const;
  // Whether the connection has as many streams as it may, and what to say.
  bool HasAllStreams() const;
  absl::Status TooManyStreams() const;
  static absl::Status TooLargeReply(uint64_t bytes, absl::string_view limit,
                                    uint64_t most);
  // OK if the reply may be sent to this client.
  absl::Status CheckReply(const ServerCall::Reply& reply) const;
  // Ends the call with an error of the transport's own.
  void Refuse(ServerCall* call, absl::Status status);
  // Makes that its reply, which is still to be sent.
  void SetRefusal(ServerCall* call, absl::Status status);
  // Ends a call about which nothing was done, and says so.
  void RefuseUnprocessed(ServerCall* call);
  // Sends the call's next frame, now or when there is a credit.
  void QueueFrame(ServerCall* call, State state);
  bool SendQueued(ServerCall* call);
  // SendWaiting(): the frames, and what waits for memory or its turn.
  void SendFrames();
  void StartTransfers();
  void PostChunks();
  void SendPending(ServerCall* call, uint8_t* out);
  void SendResponse(ServerCall* call, uint8_t* out);
  // The status message as far as it is sent.
  absl::string_view StatusText(const ServerCall::Reply& reply) const;
  // How long the RESPONSE is with what of the reply is in it.
  uint32_t ResponseFrameBytes(const ServerCall* call) const;
  // Sends a RESPONSE that does not fit one SEND as several; false if it can't.
  bool SendContinuedResponse(ServerCall* call);
  // `out` has room for all that is not in the lease. Returns how much that is.
  uint32_t WriteResponse(ServerCall* call, uint8_t* out);
  // Frees a call whose RESPONSE is written. Its writer, if there is one, is to
  // be told once that is sent.
  ReplyWriter* EndCall(ServerCall* call);
  // Returns how many bytes fit a RESPONSE beside its header.
  uint64_t RoomForReply() const;
  void ReleaseReply(ServerCall* call);
  void FreeCall(ServerCall* call);

  ServerHandler& handler_;
  PollerThreads& threads_;
  uint32_t open_calls_ = 0;    // Calls whose RESPONSE has not been sent.
  uint32_t open_streams_ = 0;  // Those of them that are streams, served.
  uint32_t handling_ = 0;  // Calls of which somebody outside has the pointer.
  Intake intake_ = Intake::kServed;
  // The longest message of a reply that goes the short way.
  uint64_t plain_reply_max_ = 0;
  const absl::Time hello_deadline_;  // A client must have said HELLO by then.
  // A WELCOME is to be sent, or before that CREDENTIALS, with that body.
  bool opening_due_ = false;
  std::string opening_;
  std::unique_ptr<Admission> admission_;  // Null if it is over, or not needed.
  std::shared_ptr<const AuthContext> auth_context_;  // Null: nobody asked.
  // Whether that is not believed any more; null if it always is.
  std::shared_ptr<const std::atomic<bool>> withdrawn_;
  RemoteArenas arenas_;
  // By slot; made when a client first uses the slot.
  std::vector<std::unique_ptr<ServerCall>> calls_;

  CallQueue<ServerCall> memory_waiters_;  // First come, first served.
  // Large ones that are not even in that line yet: at most kLargeReadsMax of
  // them, large_reads_ at present, are.
  CallQueue<ServerCall> turn_waiters_;
  uint32_t large_reads_ = 0;
  CallQueue<ServerCall> frame_waiters_;  // Their frame needs a credit.
  CallQueue<ServerCall> lease_waiters_;  // They are kAwaitsLease.
  uint64_t leases_passed_ = 0;  // How often the first of those was another one.
  // Not after the ExpiryOf() of anything that waits in any of these.
  absl::Time expiry_ = absl::InfiniteFuture();
  bool stream_write_posted_ = false;  // All of one, since it was looked at.
  // The ids of calls whose stream waits for memory to READ into.
  std::vector<uint32_t> read_waiters_;
  CallQueue<ServerCall> draining_;  // They are kDraining.
  // They are kHandling, or kDraining, and have initial metadata to send.
  CallQueue<ServerCall> initial_waiters_;
  FrameAssembly assembly_;
  OpenStreams streams_;
  BulkTransfers transfers_;
  int64_t transfer_bytes_ = 0;   // Of all transfers that have not ended.
  uint64_t seen_shortages_ = 0;  // The pool's, at the last FreeHeldMemory().
  bool over_share_ = false;      // Memory was refused because of what it has.
  // The connection's blocks of the pool, in its calls and with its handlers.
  const PoolAccount::Owner account_;

  // Watches over the things that the client owes, each with a line of its own.
  StallWatch parts_watch_;    // The rest of a frame.
  StallWatch credits_watch_;  // Credits for what is to be sent.
  StallWatch sends_watch_;    // Completions of what was posted.
  StallWatch leases_watch_;   // Memory for replies.
  Connection connection_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SERVER_SERVER_CALLS_H_
