#include "transport/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace verbena::base {

CheckFailure::CheckFailure(const char* file, int line, const char* condition) {
  stream_ << file << ':' << line << ": Check failed: " << condition << ' ';
}

// Runs at the end of the statement, when all that `<<` appends is in the
// stream.
CheckFailure::~CheckFailure() {
  std::fprintf(stderr, "%s\n", stream_.str().c_str());
  std::abort();
}

}  // namespace verbena::base
