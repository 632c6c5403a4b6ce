// Mistakes in a source that clang-tidy must find: see check_tidy_plugin.sh.

#include "tools/build/testdata/findings.h"

#include <string>
#include <utility>

namespace verbena {

bool Moved(std::string text) {
  const std::string taken = std::move(text);
  return text.size() == 0 && taken.empty() && Nothing<int>() == nullptr;
}

}  // namespace verbena
