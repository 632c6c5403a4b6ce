// How a poll sees, without a lock, that a queue pair has nothing to do.

#ifndef VERBENA_TRANSPORT_SOFT_LINK_IDLE_WATCH_H_
#define VERBENA_TRANSPORT_SOFT_LINK_IDLE_WATCH_H_

#include <atomic>
#include <cstdint>

#include "transport/soft/link/link_end.h"

namespace verbena::soft {

// Watches the two words of the peer that change when there is something to do.
// An empty poll reads them and takes no lock, so that polling a silent queue
// pair costs some 10 ns.
//
// Begin() and End() are called with the lock of the queue pair held. The memory
// of the link must outlive every poll that may still look at it: see
// ConnectedQueuePair::WaitForPolls().
//
// Begin() releases the words, and a poll that sees them in force acquires them.
// A poll that overlaps with Begin() or End() may see some words of the last
// watch, and miss what has come: the next poll finds it.
class IdleWatch {
 public:
  // From now on there is nothing to do until one of `words` changes.
  void Begin(const LinkEnd::Watch& words) {
    stamp_.store(words.stamp, std::memory_order_relaxed);
    stamp_awaited_.store(words.stamp_awaited, std::memory_order_relaxed);
    progress_.store(words.progress, std::memory_order_relaxed);
    progress_seen_.store(words.progress_seen, std::memory_order_relaxed);
    watching_.store(true, std::memory_order_release);
  }
  // From now on every poll is to look for itself.
  void End() { watching_.store(false, std::memory_order_relaxed); }

  // From any thread.
  bool NothingNew() const {
    return watching_.load(std::memory_order_acquire) &&
           stamp_.load(std::memory_order_relaxed)
                   ->load(std::memory_order_relaxed) !=
               stamp_awaited_.load(std::memory_order_relaxed) &&
           progress_.load(std::memory_order_relaxed)
                   ->load(std::memory_order_relaxed) ==
               progress_seen_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<bool> watching_{false};
  std::atomic<const std::atomic<uint64_t>*> stamp_{nullptr};
  std::atomic<const std::atomic<uint64_t>*> progress_{nullptr};
  std::atomic<uint64_t> stamp_awaited_{0};
  std::atomic<uint64_t> progress_seen_{0};
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_LINK_IDLE_WATCH_H_
