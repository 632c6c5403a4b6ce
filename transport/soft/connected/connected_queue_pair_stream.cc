// A queue pair that drives its link to another host: it moves the bytes itself,
// wherever it looks at the link.

#include "transport/soft/connected/connected_queue_pair.h"

namespace verbena::soft {
namespace {

// How often one pass fills the ring again that it has just emptied into the
// socket, so that the other queue pairs of the queue have their turn.
constexpr int kRefillsPerPass = 4;

}  // namespace

// Called for every pass. Packets that wait in the ring come first; where polls
// look at all sockets at once, one that is not ready costs no system call.
// While bytes wait for room in the ring the socket is not watched, so each pass
// tries. A program that may sleep next takes all that has come.
void ConnectedQueuePair::ReceiveStream() {
  if (link().has_incoming()) return;
  if (driven_.watched_by_polls() && !stream_ready_ &&
      !driven_.input_blocked()) {
    return;
  }
  driven_.Receive();
  stream_ready_ = asleep_ && link().has_incoming();
}

// Whether a pass would find nothing to do: so among many connections those that
// are silent cost next to nothing. REQUIRES: driven_.active().
bool ConnectedQueuePair::StreamIsQuiet() {
  return Connected() && driven_.may_be_idle() && !stream_ready_ &&
         !stream_unfinished_ && !driven_.input_blocked() &&
         !link().has_incoming() && link().progress_told() &&
         exchange_.WantedSleep() == kSleepForPackets && !exchange_.failed() &&
         !exchange_.nak_received() && !AnyQueueFailed();
}

// Sends what is in the ring, and what had no room in it. Returns whether there
// may be more: if the socket has no room it tells when it has.
//
// A request to a peer of another kind is executed when the socket has it, which
// nobody rings for. A queue pair that is polled finds that at the next poll;
// one that sleeps looks at once.
bool ConnectedQueuePair::SendStream(bool more) {
  bool moved = driven_.Send();
  const bool sent = moved;
  for (int i = 0; moved && i < kRefillsPerPass; ++i) {
    if (exchange_.has_unsent()) {
      more = exchange_.Transmit();
      if (checks_after_transmit_) AfterTransmit();
    }
    moved = driven_.Send();
  }
  // Words that cannot be are found by the next pass as well.
  if (sent && asleep_ && !exchange_.ReadPeerWords()) more = true;
  driven_.UpdateInterest(/*connected=*/true);
  stream_unfinished_ = more || moved;
  return stream_unfinished_;
}

// The socket wakes a thread that waits at the channel. If none does, the
// driver's own thread looks after it, and rings for everything. REQUIRES:
// Connected().
void ConnectedQueuePair::SleepOverStream() {
  asleep_ = true;
  idle_watch_.End();
  link().SetSleep(kSleepForAcks);
  driven_.Sleep(recv_cq_.wait() == CompletionQueue::Wait::kForAny);
  driven_.UpdateInterest(/*connected=*/true);
}

void ConnectedQueuePair::PollStream() {
  if (!lock_.try_lock()) return;
  if (parking().parked) recv_cq_.queue_pairs().Return(this);
  stream_ready_ = true;
  RunLocked();
  if (driven_.active()) driven_.UpdateInterest(Connected());
  lock_.unlock();
}

// As AnswerBell(), for a thread that was woken by the socket.
void ConnectedQueuePair::AnswerStream() {
  BiasedLock::Guard lock(lock_);
  if (!driven_.active()) return;
  stream_ready_ = true;
  if (Connected()) {
    if (parking().parked) recv_cq_.queue_pairs().Return(this);
    Drain();
    NotePath();
    NotePeerState();
    TellEngine();
    // The engine is to know of a deadline that this has set.
    if (NextTick(TimePoint::min()) != TimePoint::max()) {
      device_.engine().Kick(this);
    }
  }
  if (driven_.active()) driven_.UpdateInterest(Connected());
}

}  // namespace verbena::soft
