// Checks that fuzz targets leak no descriptors.

#ifndef VERBENA_TESTS_FUZZ_DESCRIPTORS_H_
#define VERBENA_TESTS_FUZZ_DESCRIPTORS_H_

#include <fcntl.h>
#include <unistd.h>

#include "transport/base/check.h"

namespace verbena::fuzz {

// To be called at the end of an input: what inputs leave open adds up, and in
// the end shows here.
inline void CheckFewDescriptors() {
  constexpr int kFew = 400;
  const int lowest = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
  CHECK(lowest >= 0 && lowest < kFew) << "descriptors are left open";
  ::close(lowest);
}

}  // namespace verbena::fuzz

#endif  // VERBENA_TESTS_FUZZ_DESCRIPTORS_H_
