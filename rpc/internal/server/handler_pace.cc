#include "rpc/internal/server/handler_pace.h"

#include <algorithm>

namespace verbena::internal {

void HandlerPace::CountDown(std::atomic<int>& count) {
  int now = count.load(std::memory_order_relaxed);
  while (now > 0 && !count.compare_exchange_weak(now, now - 1,
                                                 std::memory_order_relaxed)) {
  }
}

// A method that is being proven begins its proof anew. Of a short method one
// slow call is noted; another one within the next kForgiven quick calls ends
// its being short.
void HandlerPace::NoteSlow(uint64_t now) {
  if (!is_short()) {
    to_prove_.store(proof_.load(std::memory_order_relaxed),
                    std::memory_order_relaxed);
  } else if (suspicion_.load(std::memory_order_relaxed) > 0) {
    Lose(now);
  } else {
    suspicion_.store(kForgiven, std::memory_order_relaxed);
  }
}

// The next proof is kProofGrowth times as long as the last one, or as the first
// one if the last loss was long ago. All is relaxed: if two threads count at
// once, one count may be lost, which does no harm.
void HandlerPace::Lose(uint64_t now) {
  const uint64_t lost_at = lost_at_.exchange(now, std::memory_order_relaxed);
  const bool again = lost_at != 0 && now - lost_at < kLongCycles;
  const int last = again ? proof_.load(std::memory_order_relaxed) : kFirstProof;
  const int proof = std::min(last * kProofGrowth, kLongestProof);
  proof_.store(proof, std::memory_order_relaxed);
  suspicion_.store(0, std::memory_order_relaxed);
  to_prove_.store(proof, std::memory_order_relaxed);
}

}  // namespace verbena::internal
