// The options of a run of rpc_bench. Sets flags of absl::flags from a command
// line, and reads values of kinds that absl::flags does not know. Wrong flags
// are INVALID_ARGUMENT, with the flag, its value, and the valid values.
//
// absl::ParseCommandLine() is not used for three reasons. After --help and
// after wrong flags it ends the program with exit code 1. It accepts a flag
// that is given twice. It has no flags whose value may be left out.

#ifndef VERBENA_TOOLS_RPC_BENCH_FLAGS_H_
#define VERBENA_TOOLS_RPC_BENCH_FLAGS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tools/rpc_bench/workload.h"
#include "transport/base/endpoint_options.h"

namespace verbena::bench {

// Which processors client and server are pinned to.
struct Pinning {
  bool on = true;
  int client = -1;  // -1: a processor that suits the machine.
  int server = -1;
};

// Streams of one connection at once.
inline constexpr int kMaxStreams = 1024;

// The values of the flags. main.cc defines the flags, with meanings and bounds.
struct Options {
  std::string target;
  std::vector<std::string> layers;
  std::vector<uint64_t> sizes_bytes = {};
  std::vector<int> outstanding = {};
  std::string payload;  // "field", "attachment", or empty: by size.
  Case measured;        // The values that all cases have in common.
  absl::Duration duration;
  bool inline_callbacks = false;  // See ChannelOptions.
  bool events = false;
  bool verbs_count = false;
  Pinning pinning = {};
  std::vector<Op> verbs_ops = {};
  // The device, and the options of the transport that have flags.
  transport::EndpointOptions endpoint = {};
};

// Sets the program's flags by `arguments`, the command line without the
// program's name. Hyphens in names stand for underscores. If a flag has no "=",
// its value is the next argument. But a bool is then true, and a flag named in
// `implied` has the value given there. Returns the names of the flags set.
absl::StatusOr<std::set<std::string>> SetFlags(
    absl::Span<const char* const> arguments,
    const std::map<std::string, std::string>& implied);

// Returns every flag of the program with its default and its help, by name.
std::string FlagsHelp();

// Returns the error of a flag whose value is not valid.
absl::Status WrongFlag(absl::string_view flag, const absl::AlphaNum& seen,
                       absl::string_view wanted);

// Reads a number of bytes up to `max`: "64", "4KiB", "1M".
absl::StatusOr<uint64_t> ReadBytes(absl::string_view flag,
                                   absl::string_view text, uint64_t max);

// Reads a number from `min` to `max`.
absl::StatusOr<int> ReadNumber(absl::string_view flag, absl::string_view text,
                               int min, int max);

// Fails unless each of `words` is one of the words in `allowed`, which are
// separated by commas.
absl::Status CheckWords(absl::string_view flag,
                        const std::vector<std::string>& words,
                        absl::string_view allowed);

// Reads "off", "0,1", or one processor for both. If `text` is empty, the
// processors are those that suit the machine.
absl::StatusOr<Pinning> ReadPinning(absl::string_view flag,
                                    absl::string_view text);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_FLAGS_H_
