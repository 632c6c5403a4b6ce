// An RC connection: the common part of the client's and the server's end.

#ifndef VERBENA_TRANSPORT_SESSION_CONNECTION_H_
#define VERBENA_TRANSPORT_SESSION_CONNECTION_H_

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/base/credentials.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/limits.h"
#include "transport/device/cm_watcher.h"
#include "transport/device/device_connection.h"
#include "transport/device/memory_domain.h"
#include "transport/device/poller_device.h"
#include "transport/polling/poller_counters.h"
#include "transport/session/call_table.h"
#include "transport/session/connection_state.h"
#include "transport/session/credit_flow.h"
#include "transport/session/keepalive.h"
#include "transport/session/send_queue.h"
#include "transport/verbs/cm_id.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::transport {

// Sends and receives frames within credits, keeps the connection alive, and
// tears it down in order: BYE if there is a reason to tell, disconnect, wait
// until everything posted has been flushed, and only then let go of memory.
// Frames about calls are for its CallTable, which has the connection.
//
// A peer that breaks the protocol costs it its connection, never ours the
// process. The PollerDevice, the memory and the Poller must outlive it.
// Confined to the poller's thread. Never moves: completions find it by address.
class Connection final : public DeviceConnection, public CmEventHandler {
 public:
  // `id` has its queue pair, made with device.QpAttributes(memory); its
  // receives are reserved. `access` is what the peer may do to our memory, as
  // IBV_ACCESS_ flags. `calls` may still be under construction.
  Connection(Poller& poller, PollerDevice& device, MemoryDomain& memory,
             CmId id, PollerDevice::QueuePair queue_pair,
             const EndpointOptions& options, int access, CallTable& calls);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  // REQUIRES: DestroyQueuePair().
  ~Connection();

  // Returns this side's limits, for the private data.
  static PeerLimits OwnLimits(const EndpointOptions& options);

  // "10.0.0.7:50051".
  const std::string& peer() const { return peer_; }
  PollerDevice& device() const { return device_; }
  BufferPool& pool() const { return memory().pool(); }
  Poller& poller() const { return poller_; }
  DeviceCounters& counters() { return counters_; }
  const EndpointOptions& options() const { return options_; }
  const CmId& id() const { return id_; }
  // Once the connection manager knows the peer.
  PeerFacts Facts() const;

  // Takes the connection manager's next step, of a client or of a server.
  absl::Status Connect(const ConnectionParameters& parameters) {
    return id_.Connect(parameters);
  }
  absl::Status Accept(const ConnectionParameters& parameters) {
    return id_.Accept(parameters);
  }

  ConnectionState state() const { return state_; }
  // Whether frames may be sent and calls made.
  bool usable() const { return state_ == ConnectionState::kOpen; }
  // Why it is closing or closed; OK while it is not.
  const absl::Status& failure() const { return failure_; }
  // Nothing is posted any more and nothing is called back: it may be destroyed.
  bool closed() const { return state_ == ConnectionState::kClosed; }

  // Ends the connection. Open calls end with `reason`, which must not be OK.
  void Close(const absl::Status& reason);
  // As Close(), but tells the peer the reason: it is not believed to be who it
  // should be (UNAUTHENTICATED), or cannot do what is wanted.
  void Refuse(const absl::Status& reason);

  // Tells the peer, once the connection is open, that no new calls should come,
  // or that none will. From then on every frame is signalled, so that
  // sends_done() tells when the peer has them all.
  void SendGoAway();
  // Whether the peer's device has everything that was sent.
  bool sends_done() const { return send_.idle(); }

  // Handles an event of the connection manager about this connection's id.
  void OnCmEvent(const CmEvent& event) override;

  // --- Checksums: see frame.h ---

  // Checksums were agreed on. Frames that come have them from the next one on
  // or, at a server, from when the client has read the WELCOME.
  // FAILED_PRECONDITION if the peer's slots have no room for them.
  absl::Status ExpectSums();
  bool expects_sums() const { return expects_sums_; }
  // Frames that are sent have them from now on: SendRoom() is less.
  void BeginSums() { sum_bytes_ = sizeof(FrameSums); }
  // Returns the sums that the last frame received states for its parts in
  // an arena.
  const PartSums& received_sums() const { return received_sums_; }
  // Ends the connection and tells the peer that bytes were damaged on their
  // way. The part, of `bytes` bytes, was sent with the sum `stated` but has the
  // sum `found`.
  void PartDamaged(absl::string_view part, uint64_t bytes, uint32_t stated,
                   uint32_t found);

  // As DeviceConnection.
  void OnReceive(absl::Span<const uint8_t> frame) override;
  void OnSendDone(uint64_t wr_id, ibv_wc_status status) override;
  void OnInvalidated(uint32_t rkey) override { calls_.OnInvalidated(rkey); }
  void OnForeignReceive(ibv_wc_opcode opcode) override;
  void OnReceiveError(ibv_wc_status status) override;
  void OnMisreport(absl::string_view what) override;
  void OnSendBuffer() override;
  void OnTick(absl::Time now) override;
  absl::Time NextTick() const override;
  // A connection that closes is not woken by what it waits for.
  bool ticks_always() const override { return state_ > ConnectionState::kOpen; }
  void FinishRound() override;

  // --- For the CallTable ---

  // Takes the next step of connecting.
  void Transition(ConnectionState state);
  // Once the peer's limits are known; no frame is sent before.
  void SetPeerLimits(const PeerLimits& limits);
  const PeerLimits& peer_limits() const { return peer_limits_; }
  // Sets what RDMA CM leaves at values that we can't have: see the cause there.
  absl::Status FixQueuePair();

  // Lets go of the queue pair, so that the device touches no memory any more.
  // To be called before memory is freed that belongs to calls.
  void DestroyQueuePair();

  // Whether a credited frame may be sent and leave `spare_credits`. If credits
  // are what is missing, the peer hears of it with the next frame.
  bool CanSend(uint32_t spare_credits) {
    return ABSL_PREDICT_TRUE(state_ <= ConnectionState::kOpen) &&
           credits_.CanSend(spare_credits) && send_.HasFrameRoom();
  }
  // Frames that may be sent right now, and receives that are reserved for the
  // peer.
  uint32_t credits() const { return credits_.available(); }
  uint32_t receive_window() const { return credits_.window(); }
  // How many credits a new request leaves to frames that others wait for.
  uint32_t RequestReserve() const { return credits_.RequestReserve(); }
  // CanSend() for a frame that nobody waits for: the peer hears nothing of it
  // when it can't.
  bool CanSendIdly() const {
    return state_ <= ConnectionState::kOpen &&
           credits_.available() > RequestReserve() && send_.HasFrameRoom();
  }
  // How many credits this side has used if it has none now: another number
  // each time that there was one in between.
  std::optional<uint64_t> SpentCredits() const {
    if (credits_.has_credit()) return std::nullopt;
    return credits_.used();
  }
  // Starts a credited frame of at most `bytes`; null unless CanSend() and there
  // is memory for it. What could not be sent waits: see NoteWaiting(). The
  // caller fills in everything but what concerns credits, then calls Send().
  // The memory begins on a multiple of 64.
  uint8_t* BeginFrame(uint32_t bytes, uint32_t spare_credits) {
    return CanSend(spare_credits) ? BeginAnyFrame(bytes) : nullptr;
  }
  // Sends the first `bytes` of what BeginFrame() returned last. `invalidates`,
  // if not 0, is a key of the peer that goes with it. REQUIRES: nothing was
  // sent since. The connection may be closing afterwards.
  void Send(uint32_t bytes, uint32_t invalidates = 0) {
    SendFrame(bytes, /*signalled=*/false, invalidates);
  }
  // As Send(), for a frame that has parts in an arena. If frames have sums,
  // `parts` are those of the parts.
  void Send(uint32_t bytes, const PartSums& parts, uint32_t invalidates = 0) {
    part_sums_ = parts;
    Send(bytes, invalidates);
  }

  // As BeginFrame(), for a REQUEST or RESPONSE that is all in its frame. If the
  // last thing that was sent in this round was one too, and the peer takes
  // trains, the frame joins it, and needs no credit. To be sent by SendCall().
  uint8_t* BeginCall(uint32_t bytes, uint32_t spare_credits) {
    if (send_.has_train() && state_ <= ConnectionState::kOpen) {
      uint8_t* const frame = send_.BeginInTrain(bytes, SendRoom());
      if (ABSL_PREDICT_TRUE(frame != nullptr)) return frame;
    }
    return BeginFrame(bytes, spare_credits);
  }
  // Sends the first `bytes` of what BeginCall() returned last. `invalidates` as
  // of Send(); not 0 only if BeginFrame() was called instead.
  void SendCall(uint32_t bytes, uint32_t invalidates = 0);
  // HELLO and WELCOME have agreed on trains. Does nothing if they have agreed
  // on checksums, too.
  void AllowTrains() { trains_ = !expects_sums_; }
  bool allows_trains() const { return trains_; }

  // Returns the length of the longest frame that fits one SEND to the peer.
  uint32_t SendRoom() const {
    // From when sums are agreed on, not from when they begin: what is placed in
    // between may be sent behind the WELCOME, with them.
    return std::min(kBufferBytes, peer_limits_.buffer_bytes) -
           (expects_sums_ ? uint32_t{sizeof(FrameSums)} : 0);
  }
  // How many SENDs a frame of so many bytes takes, more than fit one.
  uint64_t SendsFor(uint64_t frame_bytes) const {
    const uint64_t room = SendRoom() - sizeof(FrameHeader);
    return (frame_bytes - sizeof(FrameHeader) + room - 1) / room;
  }
  // Whether a frame of so many bytes, more than fit one SEND, can go now, all
  // of it, and leave `spare_credits`. If credits are what is missing, the peer
  // hears of it, so that the next one may go.
  bool CanSendContinued(uint64_t frame_bytes, uint32_t spare_credits);
  // Sends it. REQUIRES: CanSendContinued(); its header is that of the whole.
  void SendContinued(absl::Span<uint8_t> frame, uint32_t invalidates = 0);
  // Where READs and WRITEs are posted; they go with the next doorbell.
  SendQueue& send_queue() { return send_; }

  // Something of the table waits for credits, buffers or memory: SendWaiting()
  // is called at the end of this round and of those that follow, until it says
  // that nothing waits any more.
  void NoteWaiting() {
    calls_wait_ = true;
    Touch();
  }
  // Has that happen at the end of the poller's round, or at once if there is
  // none.
  void SendWaitingSoon();

  // A frame of this type has no body and no further header.
  static FrameHeader PlainHeader(FrameType type, uint32_t call_id) {
    return {type, 0, sizeof(FrameHeader), 0, call_id, 0};
  }

  // The peer broke the protocol: tells it why, and closes.
  void ProtocolError(absl::string_view what);
  // The device refused to post, with that errno: closes.
  void FailPostSlow(int error);

 private:
  // Something has happened that OnTick() and NextTick() look at.
  void Touch() { device_.Touch(this); }
  void JoinRound() { device_.JoinRound(this); }
  // Rings the doorbell, at the end of the round if there is one.
  void FlushSoon() {
    if (ABSL_PREDICT_TRUE(poller_.in_round())) {
      JoinRound();
    } else {
      FlushNow();
    }
  }
  void FlushNow();
  // Memory for a frame of any type; null if it has to wait for a buffer.
  uint8_t* BeginAnyFrame(uint32_t bytes) {
    uint8_t* const frame = send_.BeginFrame(bytes + sum_bytes_);
    // Its own completion has it try again, if one is to come.
    if (ABSL_PREDICT_FALSE(frame == nullptr) && !send_.awaits_completion()) {
      device_.WaitForSendBuffer(this);
    }
    return frame;
  }
  void SendFrame(uint32_t bytes, bool signalled, uint32_t invalidates = 0);
  // If what one SEND brought is a train, cuts it into its first frame and the
  // rest. Returns whether that first frame is a plain call.
  static bool CutTrain(absl::Span<const uint8_t>* frame,
                       absl::Span<const uint8_t>* rest);
  // Handles the frames of a train behind the first one.
  ABSL_ATTRIBUTE_NOINLINE void OnTrain(absl::Span<const uint8_t> rest);
  // Takes the checksums off a frame that came; false, and closes, if they are
  // not those of its bytes.
  bool CheckSums(absl::Span<const uint8_t>* frame);
  // Whether a client may have sent the frame before it read the WELCOME.
  static bool PrecedesSums(absl::Span<const uint8_t> frame);
  void CloseDamaged(absl::string_view what, uint32_t stated, uint32_t found);
  // Closes for a frame with that checksum, which should be another.
  void FrameDamaged(absl::Span<const uint8_t> frame, uint32_t stated,
                    uint32_t found);
  // A frame came while the connection closes: nobody reads it.
  void OnLateFrame();
  // Closes for what is wrong with a frame's header.
  void FrameRefused(const char* error);
  // Sends the control frames that are owed.
  void SendOwedControl();
  // Whether a frame that nobody waits for may be sent.
  bool HasCredit() const {
    return credits_.has_credit() && send_.HasFrameRoom();
  }
  // Sends a frame of a type that has no fields of its own; false if it can't.
  bool SendControl(FrameType type, absl::string_view body = {},
                   uint8_t flags = 0);
  void SendGrant();
  // The peer waited for credits: lets it have twice as many.
  void GrowWindow();
  // Gives back, and takes back, credits that nobody has used for a while.
  void BalanceCredits(absl::Time now);
  void SendReturn();
  void HandleControl(FrameType type, absl::Span<const uint8_t> frame);
  void OnDisconnected(const absl::Status& reason);
  void KeepAlive(absl::Time now);
  absl::Status BrokenProtocol(absl::string_view what) const;
  void BeginClose(const absl::Status& reason, bool tell_peer);
  void Disconnect();
  void CheckDrained();
  // Whether no posted request will complete any more.
  bool flushed() const { return send_.idle() && receives().idle(); }
  base::Counter& InState() {
    return counters_.connections[static_cast<size_t>(state_)];
  }

  Poller& poller_;
  PollerDevice& device_;
  CallTable& calls_;
  DeviceCounters& counters_;  // The poller's.
  ConnectionState state_ = ConnectionState::kConnecting;
  bool calls_wait_ = false;  // See NoteWaiting().
  bool going_away_ = false;  // SendGoAway() was called.
  // The peer sent a REQUEST or a RESPONSE since the last GRANT.
  bool served_ = false;
  bool trains_ = false;        // See AllowTrains().
  bool expects_sums_ = false;  // ExpectSums() was called.
  bool peer_began_sums_ = false;
  uint32_t sum_bytes_ = 0;  // Bytes of sums behind each frame.
  PartSums part_sums_;      // Of the frame that is sent next.
  PartSums received_sums_;

  // Control frames that are owed, sent as soon as there is a credit.
  bool pong_due_ = false;
  bool ping_due_ = false;
  bool goaway_due_ = false;

  CreditFlow credits_;
  SendQueue send_;  // Before the id: its memory outlives the queue pair.
  CmId id_;
  Keepalive keepalive_;
  PeerLimits peer_limits_;

  const EndpointOptions options_;
  const int access_;  // The peer's rights on our memory.
  const std::string peer_;
  bool has_queue_pair_ = true;
  absl::Status failure_;  // Why it closes; OK while it does not.
  // When the present step of closing is over, whatever the device does.
  absl::Time close_deadline_ = absl::InfiniteFuture();
  // Frames that the peer may still send while the BYE is on its way.
  uint32_t late_frames_left_ = 0;
  // Unused credits go back after this time.
  static constexpr absl::Duration kCreditsIdle = absl::Seconds(1);
  // Since when no frame has used the credits beyond the idle ones.
  absl::Time credits_idle_since_ = absl::InfiniteFuture();

  // Owns receives(); null if that is the memory's shared queue.
  const std::unique_ptr<ReceiveBuffers> own_receives_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SESSION_CONNECTION_H_
