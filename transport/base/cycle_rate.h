// How fast the processor's counter runs.

#ifndef VERBENA_TRANSPORT_BASE_CYCLE_RATE_H_
#define VERBENA_TRANSPORT_BASE_CYCLE_RATE_H_

#include <cstdint>

namespace verbena::base {

// Turns cycles of the processor's counter, which costs a third of a look at the
// clock, into time. A value.
class CycleRate {
 public:
  // Returns the rate of this machine. The first call measures for a tenth of a
  // millisecond. If the clock stands, as in a simulation, all times are zero.
  static const CycleRate& OfMachine();

  // `cycles` were counted during `nanos`. REQUIRES: nanos <= 2^31, cycles >= 1.
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
