#include <algorithm>

#include "absl/base/optimization.h"
#include "transport/polling/poller.h"

namespace verbena::transport {

// Looks at the clock once in kPollsPerClock polls. What was handled counts as
// several, because it takes longer.
int Poller::PollOnce() {
  counters_.polls.Add();
  if (ABSL_PREDICT_FALSE(--polls_until_clock_ <= 0 ||
                         tick_due_.load(std::memory_order_relaxed))) {
    TickIfDue();
  }
  const int handled = PollAll();
  polls_until_clock_ -= std::min(handled, kPollsPerClock) * kPollsPerHandled;
  return handled;
}

int Poller::PollAll() {
  in_round_ = true;
  int handled = ABSL_PREDICT_TRUE(posted_.empty()) ? 0 : RunPosted();
  // By index: handling something may add a Pollable.
  for (size_t i = 0; i < polled_.size(); ++i) handled += polled_[i]->Poll();
  // The completions of one may have given another something to send.
  if (ABSL_PREDICT_FALSE(polled_.size() > 1)) FinishRounds();
  in_round_ = false;
  return handled;
}

int Poller::RunPosted() {
  int count = 0;
  // A task may post what should not wait for the next look at the devices: a
  // reaction that writes to a stream. But those have their turn.
  for (int pass = 0; pass < 2 && !posted_.empty(); ++pass) {
    posted_.TakeAll([&count](Task* task) {
      ++count;
      task->Run();
    });
  }
  return count;
}

void Poller::FinishRounds() {
  bool more = true;
  while (more) {
    more = false;
    for (size_t i = 0; i < polled_.size(); ++i) {
      more = polled_[i]->FinishRound() || more;
    }
  }
}

}  // namespace verbena::transport
