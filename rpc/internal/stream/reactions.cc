#include "rpc/internal/stream/reactions.h"

#include <atomic>

namespace verbena::internal {
namespace {

// Operations after which others have their turn. A coroutine does up to as many
// more at each (CoroutineStream::kMostAtOnce): together some ten microseconds.
constexpr int kOperationsARun = 16;

}  // namespace

// Looks at the state, serves what is wanted, and looks again. kAsked is cleared
// before each look, so an event during the look is not lost. If nothing is
// left, one compare-and-swap ends the run.
void Reactions::Run(StreamReactor* reactor, Serve serve) {
  constexpr uint32_t kAsked = StreamReactor::kAsked;
  constexpr uint32_t kRunning = StreamReactor::kRunning;
  std::atomic<uint32_t>& state = reactor->state_;
  // Clears kAsked and sets kRunning, before the look at the state, so that
  // events after it set kAsked again. PostReactions() was called once, so
  // kAsked is set and kRunning is not. Acquires what the threads that started
  // operations have written, such as the message.
  uint32_t wanted =
      state.fetch_xor(kAsked | kRunning, std::memory_order_acq_rel) ^
      (kAsked | kRunning);
  for (int done = 0; done < kOperationsARun;) {
    const Look look = serve(wanted);
    if (look == Look::kOver) return;
    if (look == Look::kDone) {
      ++done;
      // Fails if anything was asked for since the look: then the loop looks
      // again. Afterwards the reactor may be gone.
    } else if (state.compare_exchange_strong(wanted, wanted & ~kRunning,
                                             std::memory_order_acq_rel)) {
      return;
    }
    wanted = state.fetch_and(~kAsked, std::memory_order_acq_rel) & ~kAsked;
  }
  // Others have their turn. With kAsked set, no other thread posts the
  // reactions besides.
  state.fetch_or(kAsked, std::memory_order_relaxed);
  // Read before kRunning is cleared.
  ReactorCall* const call = reactor->call_;
  state.fetch_and(~kRunning, std::memory_order_acq_rel);
  call->PostReactions();
}

}  // namespace verbena::internal
