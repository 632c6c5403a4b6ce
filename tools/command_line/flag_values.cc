#include "tools/command_line/flag_values.h"

#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace verbena::tool {
namespace {

// The first unit that ends the text counts, so "KiB" comes before "B", and ""
// last.
constexpr std::pair<absl::string_view, uint64_t> kUnits[] = {
    {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"K", 1 << 10},
    {"M", 1 << 20},   {"B", 1},         {"", 1},
};

}  // namespace

absl::Status WrongFlag(absl::string_view flag, const absl::AlphaNum& seen,
                       absl::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, "=", seen, ": want ", wanted));
}

// NaN fails, because both comparisons with it are false.
absl::Status CheckNumber(absl::string_view flag, double value, double min,
                         double max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return WrongFlag(flag, value,
                   absl::StrCat("a number from ", min, " to ", max));
}

absl::Status CheckTime(absl::string_view flag, absl::Duration value,
                       absl::Duration min, absl::Duration max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return WrongFlag(flag, absl::FormatDuration(value),
                   absl::StrCat("a time from ", absl::FormatDuration(min),
                                " to ", absl::FormatDuration(max)));
}

// Names the first word that is wrong, so that the user sees which of a list it
// is.
absl::Status CheckWords(absl::string_view flag,
                        const std::vector<std::string>& words,
                        absl::string_view allowed) {
  const std::set<std::string> known = absl::StrSplit(allowed, ',');
  for (const std::string& word : words) {
    if (known.contains(word)) continue;
    return WrongFlag(flag, word, absl::StrCat("some of ", allowed));
  }
  return absl::OkStatus();
}

// Only the first unit that fits is tried: none behind it could give a number.
absl::StatusOr<uint64_t> ReadBytes(absl::string_view flag,
                                   absl::string_view text, uint64_t max) {
  for (const auto& [suffix, bytes] : kUnits) {
    if (!absl::EndsWith(text, suffix)) continue;
    uint64_t number = 0;
    // Divided, because the product may not fit 64 bits.
    if (absl::SimpleAtoi(absl::StripSuffix(text, suffix), &number) &&
        number <= max / bytes) {
      return number * bytes;
    }
    break;
  }
  return WrongFlag(flag, text,
                   absl::StrCat("a number of bytes from 0 to ", max,
                                ", as in 64, 4KiB or 1MiB"));
}

absl::StatusOr<int> ReadNumber(absl::string_view flag, absl::string_view text,
                               int min, int max) {
  int number = 0;
  if (absl::SimpleAtoi(text, &number) && number >= min && number <= max) {
    return number;
  }
  return WrongFlag(flag, text,
                   absl::StrCat("a number from ", min, " to ", max));
}

}  // namespace verbena::tool
