#include "transport/base/cycle_rate.h"

#include "transport/base/clock.h"
#include "transport/base/cycle_counter.h"

namespace verbena::base {
namespace {

// Some hundreds of times what a look at the clock takes.
constexpr int64_t kMeasuredNanos = 100'000;
// Much longer than that on any processor: the clock stands.
constexpr uint64_t kCyclesMost = uint64_t{1} << 24;
constexpr int kTries = 3;

struct Moment {
  int64_t nanos;
  uint64_t cycles;
};

// Both at the same time, as nearly as can be: of a few looks the one that the
// system has not interrupted.
Moment Look() {
  Moment best = {};
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < kTries; ++i) {
    const uint64_t before = CycleNow();
    const int64_t nanos = NowNanos();
    const uint64_t taken = CycleNow() - before;
    if (taken >= least) continue;
    least = taken;
    // The clock was read about halfway between the two looks at the counter.
    best = {nanos, before + taken / 2};
  }
  return best;
}

// Looks at both counters twice, with kMeasuredNanos between the looks. If the
// clock stands, as in a simulation, the cycles end the wait.
CycleRate Measure() {
  const Moment begin = Look();
  while (NowNanos() - begin.nanos < kMeasuredNanos) {
    if (CycleNow() - begin.cycles > kCyclesMost) break;
  }
  const Moment end = Look();
  return CycleRate(static_cast<uint64_t>(end.nanos - begin.nanos),
                   end.cycles - begin.cycles);
}

}  // namespace

const CycleRate& CycleRate::OfMachine() {
  static const CycleRate rate = Measure();
  return rate;
}

}  // namespace verbena::base
