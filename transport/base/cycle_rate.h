// How fast the processor's counter runs.

#ifndef VERBENA_TRANSPORT_BASE_CYCLE_RATE_H_
#define VERBENA_TRANSPORT_BASE_CYCLE_RATE_H_

#include <cstdint>

namespace verbena::base {

// Turns cycles of the processor's counter, which costs a third of a look at the
// clock, into time. A value.
class CycleRate {
 public:
  // That of this machine. The first call takes a tenth of a millisecond. Where
  // the clock stands, as in a simulation, all times are zero.
  static const CycleRate& OfMachine();

  // In so many nanoseconds there were so many cycles, at most 2^31 of the
  // former and at least one of the latter.
  CycleRate(uint64_t nanos, uint64_t cycles)
      : scaled_((nanos << kShift) / cycles) {}

  uint64_t Nanos(uint64_t cycles) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>((Wide{cycles} * scaled_) >> kShift);
  }

 private:
  static constexpr int kShift = 32;

  uint64_t scaled_;  // Nanoseconds in a cycle, times 2^kShift.
};

}  // namespace verbena::base

#endif  // VERBENA_TRANSPORT_BASE_CYCLE_RATE_H_
