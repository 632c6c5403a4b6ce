#include "tests/endurance/figures.h"

#include <malloc.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace verbena::endurance {

std::string ToLine(const Figures& figures) {
  return absl::StrJoin(figures, " ", absl::PairFormatter("="));
}

Figures FromLine(absl::string_view line) {
  Figures figures;
  for (const absl::string_view word : absl::StrSplit(line, ' ')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(word, absl::MaxSplits('=', 1));
    int64_t value = 0;
    if (absl::SimpleAtoi(parts.second, &value)) {
      figures[std::string(parts.first)] = value;
    }
  }
  return figures;
}

Figures OwnFootprint() {
  constexpr struct {
    absl::string_view key;
    const char* name;
    int64_t unit;
  } kLines[] = {{"VmRSS:", "resident", 1024},
                {"VmSize:", "mapped", 1024},
                {"VmPin:", "pinned", 1024},
                {"Threads:", "threads", 1}};
  Figures figures;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar("\t "), absl::SkipEmpty());
    int64_t value = 0;
    if (words.size() < 2 || !absl::SimpleAtoi(words[1], &value)) continue;
    for (const auto& each : kLines) {
      if (words[0] == each.key) figures[each.name] = value * each.unit;
    }
  }
  const struct mallinfo2 heap = mallinfo2();
  figures["heap"] = static_cast<int64_t>(heap.uordblks + heap.hblkhd);
  // The iterator itself has one descriptor open, which does not count.
  figures["descriptors"] =
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                    std::filesystem::directory_iterator()) -
      1;
  return figures;
}

}  // namespace verbena::endurance
