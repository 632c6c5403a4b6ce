// The processor's own instructions, which the C++ library has no names for.

#ifndef VERBENA_TRANSPORT_BASE_CYCLE_COUNTER_H_
#define VERBENA_TRANSPORT_BASE_CYCLE_COUNTER_H_

#include <cstdint>

namespace verbena::base {

// CycleNow() returns the processor's counter, which runs at a constant rate and
// alike on all cores; CycleRate turns differences into time. Limits that are
// given in cycles were chosen for x86, where a nanosecond has 2 to 5. Arm's
// counter is slower before version 8.6 (24 to 100 MHz): there they allow more
// time.
//
// RelaxProcessor() tells the processor that this thread waits in a loop.
#if defined(__x86_64__)

inline uint64_t CycleNow() { return __builtin_ia32_rdtsc(); }
inline void RelaxProcessor() { __builtin_ia32_pause(); }

#elif defined(__aarch64__)

inline uint64_t CycleNow() {
  uint64_t count;
  asm volatile("mrs %0, cntvct_el0" : "=r"(count));
  return count;
}
inline void RelaxProcessor() { asm volatile("yield"); }

#else
#error "add CycleNow() and RelaxProcessor() for this processor here"
#endif

}  // namespace verbena::base

#endif  // VERBENA_TRANSPORT_BASE_CYCLE_COUNTER_H_
