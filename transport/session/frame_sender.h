// The sending side of a connection.

#ifndef VERBENA_TRANSPORT_SESSION_FRAME_SENDER_H_
#define VERBENA_TRANSPORT_SESSION_FRAME_SENDER_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "transport/base/limits.h"
#include "transport/base/seal.h"
#include "transport/device/device_connection.h"
#include "transport/device/memory_domain.h"
#include "transport/device/poller_device.h"
#include "transport/polling/poller_counters.h"
#include "transport/session/connection_state.h"
#include "transport/session/credit_flow.h"
#include "transport/session/send_queue.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::transport {

// Sends frames within credits, alone, in trains and continued. The base of
// Connection, which calls and streams use to send. Poller thread only.
class FrameSender : public DeviceConnection {
 public:
  FrameSender(const FrameSender&) = delete;
  FrameSender& operator=(const FrameSender&) = delete;

  PollerDevice& device() const { return device_; }
  Poller& poller() const { return poller_; }

  ConnectionState state() const { return life_.state(); }
  // Whether frames may be sent and calls made.
  bool usable() const { return state() == ConnectionState::kOpen; }
  // Nothing is posted any more and nothing is called back: it may be destroyed.
  bool closed() const { return state() == ConnectionState::kClosed; }
  // Takes the next step. REQUIRES: IsLegalTransition().
  void Transition(ConnectionState state);

  // Once the peer's limits are known; no frame is sent before.
  void SetPeerLimits(const PeerLimits& limits);
  const PeerLimits& peer_limits() const { return peer_limits_; }

  // --- Frames about calls ---

  // Whether a credited frame may be sent and leave `spare_credits`. If credits
  // are what is missing, the peer hears of it with the next frame.
  bool CanSend(uint32_t spare_credits) {
    return ABSL_PREDICT_TRUE(!life_.ending()) &&
           credits_.CanSend(spare_credits) && send_.HasFrameRoom();
  }
  CreditFlow& credit_flow() { return credits_; }
  const CreditFlow& credit_flow() const { return credits_; }
  // CanSend() for a frame that nobody waits for: the peer hears nothing of it
  // when it can't.
  bool CanSendIdly() const {
    return !life_.ending() &&
           credits_.available() > credits_.RequestReserve() &&
           send_.HasFrameRoom();
  }
  // Starts a credited frame of at most `bytes`; null unless CanSend() and there
  // is memory for it. What could not be sent waits: see
  // Connection::NoteWaiting(). The caller fills in everything but what concerns
  // credits, then calls Send(). The memory begins on a multiple of 64.
  uint8_t* BeginFrame(uint32_t bytes, uint32_t spare_credits) {
    return CanSend(spare_credits) ? BeginAnyFrame(bytes) : nullptr;
  }
  // Sends the first `bytes` of what BeginFrame() returned last. `invalidates`,
  // if not 0, is a key of the peer that goes with it. REQUIRES: nothing was
  // sent since. The connection may be closing afterwards.
  void Send(uint32_t bytes, uint32_t invalidates = 0) {
    SendAnyFrame(bytes, /*signalled=*/false, invalidates);
  }
  // As Send(), for a frame that has parts in an arena. If frames have sums,
  // `parts` are those of the parts.
  void Send(uint32_t bytes, const PartSums& parts, uint32_t invalidates = 0) {
    part_sums_ = parts;
    Send(bytes, invalidates);
  }
  // A frame of this type has no body and no further header.
  static FrameHeader PlainHeader(FrameType type, uint32_t call_id) {
    return {type, 0, sizeof(FrameHeader), 0, call_id, 0};
  }

  // As BeginFrame(), for a REQUEST or RESPONSE that is all in its frame. If the
  // last thing that was sent in this round was one too, and the peer takes
  // trains, the frame joins it, and needs no credit. To be sent by SendCall().
  uint8_t* BeginCall(uint32_t bytes, uint32_t spare_credits) {
    if (send_.has_train() && !life_.ending()) {
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
    return std::min(kBufferBytes, peer_limits_.buffer_bytes) - trailer_bytes_;
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
  // Whether the peer's device has everything that was sent.
  bool sends_done() const { return send_.idle(); }

  // Checksums were agreed on: SendRoom() is less.
  bool expects_sums() const { return expects_sums_; }
  // Seals all that is sent from now on. What was begun goes out before.
  void BeginSealing(std::unique_ptr<Sealer> sealer);
  // Null unless this side seals.
  Sealer* sealer() const { return sealer_.get(); }
  // Numbers so many chunks, and returns the first number.
  uint64_t TakeChunks(uint32_t count) {
    return std::exchange(next_chunk_, next_chunk_ + count);
  }
  // Whether long messages of streams go in DATA as well.
  bool keeps_streams_in_frames() const {
    return expects_sums_ || sealer_ != nullptr;
  }
  // Frames that are sent have them from now on.
  void BeginSums() { sum_bytes_ = sizeof(FrameSums); }

  // The device refused to post, with that errno: closes.
  virtual void FailPostSlow(int error) = 0;

  // --- Frames of the connection itself ---

  // Memory for a frame of any type; null if it has to wait for a buffer.
  uint8_t* BeginAnyFrame(uint32_t bytes) {
    uint8_t* const frame = send_.BeginFrame(bytes + sum_bytes_);
    // Its own completion has it try again, if one is to come.
    if (ABSL_PREDICT_FALSE(frame == nullptr) && !send_.awaits_completion()) {
      device_.WaitForSendBuffer(this);
    }
    return frame;
  }
  // As Send(). `signalled`: its completion is wanted soon.
  void SendAnyFrame(uint32_t bytes, bool signalled, uint32_t invalidates = 0);
  // Sends a frame of a type that has no fields of its own; false if it can't.
  bool SendControl(FrameType type, absl::string_view body = {},
                   uint8_t flags = 0);

 protected:
  // The first three must outlive it, and `counters`.
  FrameSender(Poller& poller, PollerDevice& device, MemoryDomain& memory,
              ReceiveBuffers& receives, DeviceCounters& counters,
              uint32_t continued_bytes_max);
  ~FrameSender() = default;

  const ConnectionLife& life() const { return life_; }
  void set_expects_sums() {
    expects_sums_ = true;
    trailer_bytes_ = sizeof(FrameSums);
  }
  // Has every frame signalled from now on, so that sends_done() tells when the
  // peer has them all.
  void SignalAll() { signals_all_ = true; }
  void FlushNow();

 private:
  void OnSendBuffer() final { device_.JoinRound(this); }

  Poller& poller_;
  PollerDevice& device_;
  ConnectionLife life_;
  CreditFlow credits_;
  std::unique_ptr<Sealer> sealer_;
  uint64_t next_chunk_ = 1;
  SendQueue send_;
  PeerLimits peer_limits_;
  const uint32_t continued_bytes_max_;
  bool signals_all_ = false;
  bool trains_ = false;  // See AllowTrains().
  bool expects_sums_ = false;
  uint32_t trailer_bytes_ = 0;  // Bytes that SendRoom() leaves free.
  uint32_t sum_bytes_ = 0;      // Bytes of sums behind each frame.
  PartSums part_sums_;          // Of the frame that is sent next.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SESSION_FRAME_SENDER_H_
