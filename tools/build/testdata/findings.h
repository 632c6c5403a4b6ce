// Mistakes in a header that clang-tidy must find: see check_tidy_plugin.sh.

#ifndef VERBENA_TOOLS_BUILD_TESTDATA_FINDINGS_H_
#define VERBENA_TOOLS_BUILD_TESTDATA_FINDINGS_H_

#include <string>

namespace verbena {

struct Base {
  virtual ~Base() = default;
};
struct Heir : Base {
  virtual ~Heir() = default;
};

template <typename T>
T* Nothing() {
  return 0;
}

}  // namespace verbena

#endif  // VERBENA_TOOLS_BUILD_TESTDATA_FINDINGS_H_
