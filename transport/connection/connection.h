// One RC connection: what the client's and the server's end have in common.

#ifndef VERBENA_TRANSPORT_CONNECTION_CONNECTION_H_
#define VERBENA_TRANSPORT_CONNECTION_CONNECTION_H_

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/limits.h"
#include "transport/connection/connection_state.h"
#include "transport/connection/credit_window.h"
#include "transport/connection/poller_device.h"
#include "transport/connection/send_queue.h"
#include "transport/verbs/cm_id.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::transport {

// Sends and receives frames within credits, keeps the connection alive, and
// tears it down in order: BYE if there is a reason to tell, disconnect, wait
// until everything posted has been flushed, and only then let go of memory.
//
// A peer that breaks the protocol costs it its connection, never ours the
// process. The PollerDevice and the Poller must outlive it. Confined to the
// poller's role. Never moves: completions find it by address.
class Connection : public CompletionHandler, private RoundTask {
 public:
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() override;

  // What this side is able to take, for the private data.
  static PeerLimits OwnLimits(const EndpointOptions& options);

  // "10.0.0.7:50051".
  const std::string& peer() const { return peer_; }
  PollerDevice& device() { return device_; }
  Poller& poller() const { return poller_; }
  const CmId& id() const { return id_; }
  rdma_cm_id* cm_id() const { return id_.get(); }

  // Takes the connection manager's next step, of a client or of a server.
  absl::Status Connect(const ConnectionParameters& parameters) {
    return id_.Connect(parameters);
  }
  absl::Status Accept(const ConnectionParameters& parameters) {
    return id_.Accept(parameters);
  }

  ConnectionState state() const { return state_; }
  // Why it is closing or closed; OK while it is not.
  const absl::Status& failure() const { return failure_; }
  // Nothing is posted any more and nothing is called back: it may be destroyed.
  bool closed() const { return state_ == ConnectionState::kClosed; }

  // Ends the connection. Open calls end with `reason`, which must not be OK.
  void Close(const absl::Status& reason);

  // Tells the peer that no new calls should come. From then on every frame is
  // signalled, so that sends_done() tells when the peer has them all.
  void SendGoAway();
  // Whether the peer's device has everything that was sent.
  bool sends_done() const { return send_.idle(); }

  // What the connection manager reports about this connection's id.
  void OnEstablished();
  virtual void OnDisconnected(const absl::Status& reason);

  // CompletionHandler.
  void OnReceive(absl::Span<const uint8_t> frame) final;
  void OnSendDone(uint64_t wr_id, ibv_wc_status status) final;
  void OnReceiveError(ibv_wc_status status) final;
  void OnSendSlot() final;
  void OnTick(absl::Time now) final;
  absl::Time NextTick() const final;

 protected:
  // `id` has its queue pair, made with device.QpAttributes(); its receives are
  // reserved. `access` is what the peer may do to our memory, as IBV_ACCESS_
  // flags.
  Connection(Poller& poller, PollerDevice& device, CmId id,
             uint32_t inline_bytes, const EndpointOptions& options, int access);

  // Once the peer's limits are known; no frame is sent before.
  void SetPeerLimits(const PeerLimits& limits);
  const PeerLimits& peer_limits() const { return peer_limits_; }

  // Lets go of the queue pair, so that the device touches no memory any more.
  // To be called first in the destructor of the derived class, whose members
  // may be such memory.
  void DestroyQueuePair();

  // Sets what RDMA CM leaves at values that we can't have: see the cause there.
  absl::Status FixQueuePair();

  // Whether a credited frame may be sent and leave `spare_credits`. If credits
  // are what is missing, the peer hears of it with the next frame.
  bool CanSend(uint32_t spare_credits) {
    if (state_ > ConnectionState::kOpen || !send_credits_.has_value()) {
      return false;
    }
    if (send_credits_->available() <= spare_credits) {
      starved_ = true;
      return false;
    }
    return send_.HasFramePlace();
  }
  // How many credits a new request leaves to frames that others wait for.
  uint32_t RequestReserve() const {
    return std::min(kReservedCredits, send_credits_->Share(kReservedShare));
  }
  // Starts a credited frame of at most `bytes`; null unless CanSend() and there
  // is memory for it. Pump() is called when it is worth trying again. The
  // caller fills in everything but what concerns credits, then calls Send().
  uint8_t* BeginFrame(uint32_t bytes, uint32_t spare_credits);
  // REQUIRES: BeginFrame() returned non-null and nothing was sent since.
  void Send(uint32_t bytes, bool signalled);

  // Calls Pump(): at the end of the poller's round, or at once if there is
  // none.
  void PumpSoon();
  // Whether a frame of so many bytes, more than fit one SEND, can go now, all
  // of it, and leave `spare_credits`. If credits are what is missing, the peer
  // hears of it, so that the next one may go.
  bool CanSendContinued(uint64_t frame_bytes, uint32_t spare_credits);
  // Sends it. REQUIRES: CanSendContinued(); its header is that of the whole.
  void SendContinued(absl::Span<uint8_t> frame);
  // What fits one SEND to the peer.
  uint32_t SendRoom() const;

  // A frame of this type has no body and no further header.
  static FrameHeader PlainHeader(FrameType type, uint32_t call_id);

  // The peer broke the protocol: tells it why, and closes.
  void ProtocolError(absl::string_view what);

  // Whether frames may be sent and calls made.
  bool usable() const { return state_ == ConnectionState::kOpen; }
  void Transition(ConnectionState state);

  SendQueue& send_queue() { return send_; }
  const EndpointOptions& options() const { return options_; }

  // Handles a checked frame of a type that is not handled here.
  virtual void HandleFrame(FrameType type, absl::Span<const uint8_t> frame) = 0;
  // Sends what waits for credits, slots or memory. What it posts to
  // send_queue() goes to the device right after it.
  virtual void Pump() = 0;
  // A READ or WRITE that was posted with `tag` has ended; well unless failed().
  virtual void OnBulkDone(void* tag) = 0;
  // The connection has begun to close: every call ends with failure().
  virtual void OnClosing() = 0;
  // Whether somebody outside still needs this object although nothing is
  // posted.
  virtual bool InUse() const { return false; }
  virtual void TickMore(absl::Time now) = 0;
  // When TickMore() has something to do at the latest.
  virtual absl::Time NextDeadline() const = 0;
  // Whether silence of the peer is suspicious.
  virtual bool ExpectsTraffic() const { return true; }
  virtual void OnGoAway() {}

 private:
  // RoundTask: sends what the round made possible, with one doorbell.
  void OnRoundEnd() final;
  void FlushNow();
  // In a round of the poller with its end, else at once.
  void FlushSoon();
  // Memory for a frame of any type; null if it has to wait for a slot.
  uint8_t* BeginAnyFrame(uint32_t bytes);
  void PumpControl();
  // Whether a frame that nobody waits for may be sent.
  bool HasCredit() const;
  // Of a type that has no fields of its own.
  bool SendControl(FrameType type, absl::string_view body = {});
  void SendGrant();
  // What a header of the peer says of credits, and that of the frame itself.
  // Returns what is wrong with it, null if nothing is.
  const char* TakeCredits(const FrameHeader& header);
  // The peer waited for credits: lets it have twice as many.
  void GrowWindow();
  bool HandleReturn(absl::Span<const uint8_t> frame);
  // Gives back, and takes back, credits that nobody has used for a while.
  void BalanceCredits(absl::Time now);
  bool HoldsIdleCredits() const;
  void HandleControl(FrameType type, absl::Span<const uint8_t> frame);
  void BeginClose(const absl::Status& reason, bool tell_peer);
  void Disconnect();
  void CheckDrained();
  void KeepAlive(absl::Time now);
  void OnSendError(ibv_wc_status status);

  Poller& poller_;
  PollerDevice& device_;
  const EndpointOptions options_;
  const int access_;
  SendQueue send_;  // Before the id: its memory outlives the queue pair.
  CmId id_;
  const std::string peer_;

  ConnectionState state_ = ConnectionState::kConnecting;
  absl::Status failure_;

  PeerLimits peer_limits_;
  std::optional<SendCredits> send_credits_;  // Set with peer_limits_.
  ReceiveCredits receive_credits_{kIdleCredits};
  GrantTurns grants_;
  bool starved_ = false;  // A frame waits for a credit, or just did.
  bool served_ =
      false;  // The peer sent a frame of a call since the last GRANT.
  // Frames both ways when they were last looked at, and since when there were
  // so many.
  uint32_t frames_seen_ = 0;
  absl::Time credits_idle_since_ = absl::InfiniteFuture();

  bool has_queue_pair_ = true;

  // Control frames that are owed, sent as soon as there is a slot.
  bool pong_due_ = false;
  bool ping_due_ = false;
  bool goaway_due_ = false;
  bool going_away_ = false;  // SendGoAway() was called.

  absl::Time close_deadline_ = absl::InfiniteFuture();  // Of the present step.
  absl::Time last_heard_;
  std::optional<absl::Time> ping_sent_;  // Set while a PONG is awaited.
  bool heard_ = false;                   // Since the last tick.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CONNECTION_CONNECTION_H_
