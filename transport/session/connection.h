// An RC connection: the common part of the client's and the server's end.

#ifndef VERBENA_TRANSPORT_SESSION_CONNECTION_H_
#define VERBENA_TRANSPORT_SESSION_CONNECTION_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/base/credentials.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/seal.h"
#include "transport/device/cm_watcher.h"
#include "transport/device/memory_domain.h"
#include "transport/device/poller_device.h"
#include "transport/polling/poller_counters.h"
#include "transport/session/call_table.h"
#include "transport/session/connection_ending.h"
#include "transport/session/credit_balance.h"
#include "transport/session/frame_sender.h"
#include "transport/session/keepalive.h"
#include "transport/verbs/cm_id.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::transport {

// Receives frames within credits and passes those about calls on to its
// CallTable, which has the connection. Keeps the connection alive, and ends it
// in order: see ConnectionEnding.
//
// A peer that breaks the protocol costs it its connection, never ours the
// process. The PollerDevice, the memory and the Poller must outlive it.
// Confined to the poller's thread. Never moves: completions find it by address.
class Connection final : public FrameSender, public CmEventHandler {
 public:
  // `id` has its queue pair, made with device.QpAttributes(memory); its
  // receives are reserved. `access` is what the peer may do to our memory, as
  // IBV_ACCESS_ flags. `calls` may still be under construction.
  Connection(Poller& poller, PollerDevice& device, MemoryDomain& memory,
             CmId id, PollerDevice::QueuePair queue_pair,
             const EndpointOptions& options, int access, CallTable& calls);
  // REQUIRES: DestroyQueuePair().
  ~Connection();

  // Returns this side's limits, for the private data.
  static PeerLimits OwnLimits(const EndpointOptions& options);

  // "10.0.0.7:50051".
  const std::string& peer() const { return peer_; }
  DeviceCounters& counters() { return counters_; }
  const EndpointOptions& options() const { return options_; }
  CmId& id() { return id_; }
  // Once the connection manager knows the peer.
  PeerFacts Facts() const;

  // Sets what RDMA CM leaves at values that we can't have: see the cause there.
  absl::Status FixQueuePair();
  // Lets go of the queue pair, so that the device touches no memory any more.
  // To be called before memory is freed that belongs to calls.
  void DestroyQueuePair();

  // Why it is closing or closed; OK while it is not.
  const absl::Status& failure() const { return failure_; }
  // Ends the connection. Open calls end with `reason`, which must not be OK.
  void Close(const absl::Status& reason) {
    BeginClose(reason, /*tell_peer=*/false);
  }
  // As Close(), but tells the peer the reason: it is not believed to be who it
  // should be (UNAUTHENTICATED), or cannot do what is wanted.
  void Refuse(const absl::Status& reason) {
    BeginClose(reason, /*tell_peer=*/true);
  }
  // The peer broke the protocol: tells it why, and closes.
  void ProtocolError(absl::string_view what);
  void FailPostSlow(int error) override;

  // Tells the peer, once the connection is open, that no new calls should come,
  // or that none will. From then on sends_done() tells when the peer has all
  // frames.
  void SendGoAway();

  // Handles an event of the connection manager about this connection's id.
  void OnCmEvent(const CmEvent& event) override;

  // Checksums were agreed on: see frame.h. Frames that come have them from the
  // next one on or, at a server, from when the client has read the WELCOME.
  // FAILED_PRECONDITION if the peer's slots have no room for them.
  absl::Status ExpectSums();
  // Returns the sums that the last frame received states for its parts in
  // an arena.
  const PartSums& received_sums() const { return received_sums_; }
  // Ends the connection and tells the peer that bytes were damaged on their
  // way. The part, of `bytes` bytes, was sent with the sum `stated` but has the
  // sum `found`.
  void PartDamaged(absl::string_view part, uint64_t bytes, uint32_t stated,
                   uint32_t found);

  // Opens all frames that come from now on.
  // FAILED_PRECONDITION if the peer's slots have no room for sealed ones.
  absl::Status BeginOpening(std::unique_ptr<Opener> opener);
  // Null unless the peer seals.
  Opener* opener() const { return opener_.get(); }
  // Returns the number that the last frame received has for the first chunk of
  // its parts in an arena.
  uint64_t received_first_chunk() const { return received_first_chunk_; }
  // Ends the connection, because `what`, of `bytes` bytes, does not open.
  void NotOpened(absl::string_view what, uint64_t bytes);

  // As DeviceConnection.
  void OnReceive(absl::Span<const uint8_t> frame) override;
  void OnSendDone(uint64_t wr_id, ibv_wc_status status) override;
  void OnInvalidated(uint32_t rkey) override { calls_.OnInvalidated(rkey); }
  void OnForeignReceive(ibv_wc_opcode opcode) override;
  void OnReceiveError(ibv_wc_status status) override;
  void OnMisreport(absl::string_view what) override;
  void OnTick(absl::Time now) override;
  absl::Time NextTick() const override;
  // A connection that closes is not woken by what it waits for.
  bool ticks_always() const override { return life().ending(); }
  void FinishRound() override;

  // Something of the table waits for credits, buffers or memory: SendWaiting()
  // is called at the end of this round and of those that follow, until it says
  // that nothing waits any more.
  void NoteWaiting() {
    calls_wait_ = true;
    device().connections().Touch(this);
  }
  // Has that happen at the end of the poller's round, or at once if there is
  // none.
  void SendWaitingSoon();

 private:
  // Handles the frames of a train behind the first one.
  ABSL_ATTRIBUTE_NOINLINE void OnTrain(absl::Span<const uint8_t> rest);
  // Opens a frame or compares its sums, as was agreed; false, and closes, if it
  // is not as the peer sent it.
  bool CheckFrame(absl::Span<const uint8_t>* frame);
  bool OpenFrame(absl::Span<const uint8_t>* frame);
  // Takes the checksums off a frame that came; false, and closes, if they are
  // not those of its bytes.
  bool CheckSums(absl::Span<const uint8_t>* frame);
  // Closes for a frame with that checksum, which should be another.
  void FrameDamaged(absl::Span<const uint8_t> frame, uint32_t stated,
                    uint32_t found);
  void HandleControl(FrameType type, absl::Span<const uint8_t> frame);
  // Sends the control frames that are owed.
  void SendOwedControl();
  void KeepAlive(absl::Time now);
  void OnDisconnected(const absl::Status& reason);
  void BeginClose(const absl::Status& reason, bool tell_peer);

  CallTable& calls_;
  DeviceCounters& counters_;  // The poller's.
  const EndpointOptions options_;
  CmId id_;
  const std::string peer_;
  const int access_;  // The peer's rights on our memory.
  bool has_queue_pair_ = true;
  // Owns receives(); null if that is the memory's shared queue.
  const std::unique_ptr<ReceiveBuffers> own_receives_;

  bool calls_wait_ = false;     // See NoteWaiting().
  bool guards_frames_ = false;  // CheckFrame() is to be asked.
  std::unique_ptr<Opener> opener_;
  uint64_t opened_ = 0;  // Frames so far; the number of the next.
  uint64_t received_first_chunk_ = 0;
  bool peer_began_sums_ = false;
  PartSums received_sums_;
  CreditBalance balance_;
  Keepalive keepalive_;

  // Control frames that are owed, sent as soon as there is a credit.
  bool pong_due_ = false;
  bool ping_due_ = false;
  bool goaway_due_ = false;

  absl::Status failure_;  // Why it closes; OK while it does not.
  ConnectionEnding ending_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SESSION_CONNECTION_H_
