#include "transport/session/connection_ending.h"

#include "transport/base/clock.h"

namespace verbena::transport {
namespace {

// A BYE that is not acknowledged in this time will never be.
constexpr absl::Duration kByeTimeout = absl::Milliseconds(500);

// A device that does not flush in this time is broken: destroying the queue
// pair ends its access to memory all the same.
constexpr absl::Duration kDrainTimeout = absl::Seconds(2);

// kDrainTimeout on iWARP, where a device may drop what is posted to a queue
// pair in the error state. siw does, and has flushed everything else by then.
constexpr absl::Duration kIwarpDrainTimeout = absl::Milliseconds(10);

}  // namespace

// Counts at once what a correct peer may still send, because no header tells it
// of further credits while the BYE is on its way.
void ConnectionEnding::AwaitBye() {
  sender_.Transition(ConnectionState::kSayingBye);
  late_frames_left_ = sender_.credit_flow().FramesToCome();
  deadline_ = base::Now() + kByeTimeout;
}

// A peer that goes on beyond its credits takes receives that others share: it
// is not given the time to read the BYE.
void ConnectionEnding::OnLateFrame() {
  if (sender_.state() != ConnectionState::kSayingBye) return;
  if (late_frames_left_ > 0) {
    --late_frames_left_;
  } else {
    Disconnect();
  }
}

void ConnectionEnding::Disconnect() {
  sender_.Transition(ConnectionState::kDraining);
  // Receives stop before the error state, in which some devices complete each
  // at once: posting those again would never end.
  sender_.receives().Stop();
  // Puts the queue pair into the error state too. Fails when it never was
  // connected or the peer was faster; the transition below covers that.
  id_.Disconnect().IgnoreError();
  const PollerDevice& device = sender_.device();
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_ERR;
  device.provider().verbs.modify_qp(id_.qp(), &attributes, IBV_QP_STATE);
  // The marker comes after the error state. Its flush then ends everything that
  // was posted before it, the silent successes included.
  const bool marked = sender_.send_queue().PostDrainMarker();
  // Without its completion there is nothing to wait for.
  deadline_ = base::Now();
  if (!marked) return;
  deadline_ += device.limits().iwarp ? kIwarpDrainTimeout : kDrainTimeout;
}

// Both steps may follow each other at once: where the device has refused the
// marker, Disconnect() leaves nothing to wait for.
void ConnectionEnding::Check() {
  if (sender_.state() == ConnectionState::kSayingBye &&
      (sender_.sends_done() || base::Now() >= deadline_)) {
    Disconnect();
  }
  // While somebody outside has a call, the table must stay, whatever the device
  // has flushed.
  if (sender_.state() == ConnectionState::kDraining && !calls_.InUse() &&
      (flushed() || base::Now() >= deadline_)) {
    sender_.Transition(ConnectionState::kClosed);
  }
}

void ConnectionEnding::Tick() {
  if (sender_.state() == ConnectionState::kDraining && !flushed() &&
      base::Now() >= deadline_) {
    // The next queue pair may have the number of this one: no completion of
    // this one may be left for it.
    sender_.device().PollToEmpty([] { return true; });
  }
  Check();
}

absl::Time ConnectionEnding::NextTick() const {
  if (sender_.closed()) return absl::InfiniteFuture();
  // A call that is still in use ends by a task posted to the poller, which
  // needs no tick.
  return calls_.InUse() && flushed() ? absl::InfiniteFuture() : deadline_;
}

}  // namespace verbena::transport
