// Whether a thread that waits for a completion should spin before it sleeps.

#ifndef VERBENA_TRANSPORT_POLLING_SPIN_POLICY_H_
#define VERBENA_TRANSPORT_POLLING_SPIN_POLICY_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/time/time.h"

namespace verbena::transport {

// Learns from the waits of a poller whether spinning pays. It pays when what
// is waited for comes within the budget, so that nobody has to be woken. It
// does not when waits are longer than the budget, or when the processor is
// taken away in the middle of a spin: then whoever else wants the processor
// should have it at once, because a thread that has slept is woken at the cost
// of a switch, while one that has spun its share away waits for a whole time
// slice of a neighbour's. For the same reason a thread that spins never yields.
//
// The rule: a point for each wait that was spun through, two less for each spin
// in vain, none left when the processor was taken away twice in a short time.
// With less than half of the points that there can be, threads sleep after a
// few polls: so spinning goes on while two waits of three are short.
//
// A wait that ends before its first Look() gets no point, because it costs
// nothing either. But where there were kQuickWaits of them since the last spin
// in vain, the spin takes no points: to sleep through each of them would have
// cost more. Without this rule a few interruptions a second, each of which
// makes one wait too long, would have both sides of a quick conversation sleep,
// and so wait for each other's wake-ups.
//
// If waits that were slept through have been short for a while, spinning is
// tried again. After each trial in vain, twice as many short waits are needed.
//
// Short waits prove little: if both sides share one processor, waits are short
// because each side sleeps. Long waits prove little, too: two peers that both
// sleep wait for each other's wake-ups, the longer the busier the machine.
// Neither would ever learn that spinning pays if the other did it as well. So
// waits as long as some wake-ups count too, but less. In a trial, threads spin
// for that long in a few waits, until the other side tries it, too.
//
// Thread-safe, in that threads may lose each other's points, which does no
// harm; a Wait is for one thread.
class SpinPolicy {
 public:
  // `budget`: for how long to spin at most; zero for never.
  explicit SpinPolicy(absl::Duration budget)
      : budget_(budget),
        points_(budget > absl::ZeroDuration() ? kPointsMax : 0) {}
  SpinPolicy(const SpinPolicy&) = delete;
  SpinPolicy& operator=(const SpinPolicy&) = delete;

  // Whether anything is ever spun for.
  bool spins() const { return budget_ > absl::ZeroDuration(); }

  // Two looks of a spinning thread are some microseconds apart. If it was more
  // than this, another thread had the processor.
  static constexpr absl::Duration kTakenAway = absl::Microseconds(100);
  // A neighbour that computes takes it again after a time slice or two. Once in
  // longer than this it is an accident, such as work of the kernel's.
  static constexpr absl::Duration kTakenAgain = absl::Milliseconds(20);
  // Waits that end before their first Look() which make up for a spin in vain.
  // A peer that sends something now and then makes one or two of them each
  // time.
  static constexpr uint32_t kQuickWaits = 16;

  // The waits of one thread, one after the other.
  class Wait {
   public:
    explicit Wait(SpinPolicy* policy) : policy_(*policy) {}

    // Nothing was found until `now`: whether to spin on. If not, the thread is
    // to sleep and call Woke(). `transfer` is for how long nothing may complete
    // because data is on its way, which is spun for besides.
    bool Look(absl::Time now, absl::Duration transfer = absl::ZeroDuration()) {
      if (!waiting_) {
        waiting_ = true;
        began_ = looked_ = now;
        return policy_.Pays() || (policy_.spins() && transfer > kNone);
      }
      const absl::Duration gap = now - looked_;
      looked_ = now;
      if (gap > kTakenAway) {
        if (policy_.TakenAgain(now)) {
          policy_.SpunInVain(kPointsMax);
          return false;
        }
        began_ = now;
      }
      if (now - began_ < policy_.Budget() + transfer) return true;
      if (std::exchange(quick_waits_, 0) < kQuickWaits) policy_.SpunInVain(2);
      return false;
    }

    // The thread has slept since Look(): the next Look() begins a new wait.
    void Woke(absl::Time now) {
      if (waiting_) policy_.Slept(now - began_);
      waiting_ = false;
    }

    // The awaited event has come without a sleep.
    void Found() {
      if (waiting_) {
        policy_.SpunThrough(looked_ - began_);
      } else {
        ++quick_waits_;
      }
      waiting_ = false;
    }

   private:
    static constexpr absl::Duration kNone = absl::ZeroDuration();

    SpinPolicy& policy_;
    bool waiting_ = false;      // There was a Look() since the wait began.
    absl::Time began_;          // The first Look() of this wait.
    absl::Time looked_;         // The last one.
    uint32_t quick_waits_ = 0;  // Since the last spin in vain.
  };

 private:
  static constexpr int kPointsMax = 8;
  static constexpr int kPointsToSpin = kPointsMax / 2;
  // To be woken takes about as long as a budget, on a busy machine some times
  // that. A wait that was slept through is short if it took less than two, and
  // counts a quarter of that if it took less than ten.
  static constexpr int kShortBudgets = 2;
  static constexpr int kMiddlingBudgets = 10;
  static constexpr int kQuarters = 4;
  // How long threads spin, and for how many waits, when spinning is tried
  // again.
  static constexpr int kTrialBudgets = 4;
  static constexpr int kTrialWaits = 16;
  // Short waits in a row after which it is: at most two to the power of this,
  // so that trials in vain cost some hundredths of a processor.
  static constexpr int kBackoffMax = 10;

  bool Pays() const { return Get(points_) >= kPointsToSpin; }
  absl::Duration Budget() const {
    return Get(trial_waits_) > 0 ? kTrialBudgets * budget_ : budget_;
  }

  void SpunThrough(absl::Duration length) {
    if (Get(points_) == kPointsMax) return;
    if (Get(trial_waits_) > 0) {
      Set(trial_waits_, Get(trial_waits_) - 1);
      if (Get(trial_waits_) == 0) return SpunInVain(kPointsMax);
      if (length > budget_) return;
    }
    Set(points_, Get(points_) + 1);
    if (Get(points_) < kPointsMax) return;
    Set(backoff_, 0);
    Set(trial_waits_, 0);
  }
  // The processor was taken away until `now`: whether it was not long ago that
  // this happened last.
  bool TakenAgain(absl::Time now) {
    const int64_t now_ns = absl::ToUnixNanos(now);
    const int64_t last_ns =
        taken_away_ns_.exchange(now_ns, std::memory_order_relaxed);
    return now_ns - last_ns < absl::ToInt64Nanoseconds(kTakenAgain);
  }
  void SpunInVain(int points) {
    const bool paid = Pays();
    Set(points_, std::max(Get(points_) - points, 0));
    if (!paid || Pays()) return;
    Set(backoff_, std::min(Get(backoff_) + 1, kBackoffMax));
    Set(short_waits_, 0);
    Set(trial_waits_, 0);
  }
  void Slept(absl::Duration length) {
    if (Pays() || !spins()) return;
    if (length <= kShortBudgets * budget_) {
      Set(short_waits_, Get(short_waits_) + kQuarters);
    } else if (length <= kMiddlingBudgets * budget_) {
      Set(short_waits_, Get(short_waits_) + 1);
    } else {
      Set(short_waits_, 0);
    }
    if (Get(short_waits_) < kQuarters << Get(backoff_)) return;
    Set(points_, kPointsToSpin);
    Set(trial_waits_, kTrialWaits);
  }

  static int Get(const std::atomic<int>& value) {
    return value.load(std::memory_order_relaxed);
  }
  static void Set(std::atomic<int>& value, int to) {
    value.store(to, std::memory_order_relaxed);
  }

  const absl::Duration budget_;
  std::atomic<int> points_;
  std::atomic<int> backoff_{0};      // Times that it was tried in vain.
  std::atomic<int> short_waits_{0};  // Slept through in a row, in quarters.
  std::atomic<int> trial_waits_{0};  // Waits left in the trial.
  // When the processor last was taken away; at first so long ago that it does
  // not count.
  std::atomic<int64_t> taken_away_ns_{-absl::ToInt64Nanoseconds(kTakenAgain)};
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_POLLING_SPIN_POLICY_H_
