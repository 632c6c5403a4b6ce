// Counts what a warm call must not do.
//
// Linking this library replaces the allocation functions and
// pthread_mutex_lock() of the whole program by ones that count, on the threads
// that ask for it, and then do the same. Not for use under a sanitizer, which
// replaces them too.

#ifndef VERBENA_TESTS_TESTING_HOT_PATH_COUNTERS_H_
#define VERBENA_TESTS_TESTING_HOT_PATH_COUNTERS_H_

#include <cstdint>

namespace verbena::testing_support {

struct HotPathCounts {
  uint64_t allocations = 0;
  uint64_t locks = 0;
};

// Counts on the calling thread from now on. May be called again.
void CountThisThread();

// Returns the sum of the counts of all counted threads so far.
HotPathCounts CountedSoFar();

}  // namespace verbena::testing_support

#endif  // VERBENA_TESTS_TESTING_HOT_PATH_COUNTERS_H_
