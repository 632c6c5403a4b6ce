#include "transport/soft/link/link_end.h"

namespace verbena::soft {

// The release comes after the copies out of the ring: the peer writes over what
// this says has been consumed.
void LinkEnd::TellProgress() {
  if (told_progress_ == own_progress_) return;
  own_->progress.store(own_progress_.word(), std::memory_order_release);
  told_progress_ = own_progress_;
  published_progress_ = true;
}

bool LinkEnd::ReadPeerProgress(uint32_t& executed) {
  // Pairs with the peer's TellProgress(): it is done with the bytes that are
  // written over next.
  progress_seen_ = peer_->progress.load(std::memory_order_acquire);
  executed = High(progress_seen_);
  return NotePeerConsumed(Low(progress_seen_));
}

void LinkEnd::RingIfNeeded() {
  if (!published_packet_ && !published_progress_) return;
  // Between what was published and the look at the peer's sleep word there must
  // be a full fence, or both sides can miss each other. It is the sleeper that
  // pays for it where the system allows; see FenceAfterSleep.
  if (can_be_fenced_ && peer_->fences.load(std::memory_order_relaxed) == 1) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    FullFence();
  }
  const uint32_t sleep = peer_->sleep.load(std::memory_order_relaxed);
  if (sleep != kAwake &&
      (published_packet_ || (sleep & kSleepMask) == kSleepForAcks)) {
    RingSlow(sleep);
  }
  published_packet_ = false;
  published_hurried_ = false;
  published_progress_ = false;
}

}  // namespace verbena::soft
