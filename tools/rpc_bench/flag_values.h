// Reads the values of flags that absl::flags cannot read by itself. What cannot
// be read is INVALID_ARGUMENT, with the flag, what was seen and what would do.

#ifndef VERBENA_TOOLS_RPC_BENCH_FLAG_VALUES_H_
#define VERBENA_TOOLS_RPC_BENCH_FLAG_VALUES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace verbena::bench {

// The error of a flag that is not as it should be.
template <typename Seen>
absl::Status WrongFlag(absl::string_view flag, const Seen& seen,
                       absl::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, "=", seen, ": want ", wanted));
}

// Bytes up to `max`: "64", "4KiB", "1M".
absl::StatusOr<uint64_t> ReadBytes(absl::string_view flag,
                                   absl::string_view text, uint64_t max);

// A number from `min` to `max`.
absl::StatusOr<int> ReadNumber(absl::string_view flag, absl::string_view text,
                               int min, int max);

// How long to measure: "500ms", "2s"; "2" is in seconds.
absl::StatusOr<absl::Duration> ReadTime(absl::string_view flag,
                                        absl::string_view text);

// "host:port" with a port from `min_port` on; what resolves it checks the host.
absl::Status CheckAddress(absl::string_view flag, absl::string_view text,
                          int min_port);

// Whether each of `words` is one of `allowed`, which has commas in between.
absl::Status CheckWords(absl::string_view flag,
                        const std::vector<std::string>& words,
                        absl::string_view allowed);

// Which processors client and server are pinned to: "off", "0,1", or one for
// both; empty: what suits the machine.
struct Pinning {
  bool on = true;
  int client = -1;  // -1: what suits the machine.
  int server = -1;
};
absl::StatusOr<Pinning> ReadPinning(absl::string_view flag,
                                    absl::string_view text);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_FLAG_VALUES_H_
