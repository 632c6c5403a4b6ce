// Checks values of flags, and reads those of kinds that absl's flags do not
// know. A wrong value is INVALID_ARGUMENT, with the flag, the value, and the
// values that are valid.

#ifndef VERBENA_TOOLS_COMMAND_LINE_FLAG_VALUES_H_
#define VERBENA_TOOLS_COMMAND_LINE_FLAG_VALUES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace verbena::tool {

// Returns the error of a flag whose value is not valid.
absl::Status WrongFlag(absl::string_view flag, const absl::AlphaNum& seen,
                       absl::string_view wanted);

// Fails unless `value` is from `min` to `max`.
absl::Status CheckNumber(absl::string_view flag, double value, double min,
                         double max);
absl::Status CheckTime(absl::string_view flag, absl::Duration value,
                       absl::Duration min, absl::Duration max);

// Fails unless each of `words` is one of the words in `allowed`, which are
// separated by commas.
absl::Status CheckWords(absl::string_view flag,
                        const std::vector<std::string>& words,
                        absl::string_view allowed);

// Reads a number of bytes up to `max`: "64", "4KiB", "1M".
absl::StatusOr<uint64_t> ReadBytes(absl::string_view flag,
                                   absl::string_view text, uint64_t max);

// Reads a whole number from `min` to `max`.
absl::StatusOr<int> ReadNumber(absl::string_view flag, absl::string_view text,
                               int min, int max);

}  // namespace verbena::tool

#endif  // VERBENA_TOOLS_COMMAND_LINE_FLAG_VALUES_H_
