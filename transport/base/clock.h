// The clock that everything inside reckons by.

#ifndef VERBENA_TRANSPORT_BASE_CLOCK_H_
#define VERBENA_TRANSPORT_BASE_CLOCK_H_

#include <time.h>

#include <cstdint>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace verbena::base {

// CLOCK_MONOTONIC, which nobody sets, and which a deadline is therefore held
// on: nanoseconds since some moment, and the same as an absl::Time, so that
// there is an infinite future and arithmetic that saturates. Only what a user
// of the library gives and gets is of the wall clock.
inline int64_t NowNanos() {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}
inline absl::Time Now() { return absl::FromUnixNanos(NowNanos()); }

// Converts a time of the wall clock to Now()'s clock, on the assumption that
// nobody sets the wall clock before. The infinite future and past stay what
// they are.
inline absl::Time FromWallClock(absl::Time time) {
  return time - absl::Now() + Now();
}
// Converts a time of Now()'s clock to the wall clock, on the same assumption.
inline absl::Time ToWallClock(absl::Time time) {
  return time - Now() + absl::Now();
}

}  // namespace verbena::base

#endif  // VERBENA_TRANSPORT_BASE_CLOCK_H_
