// What one run of rpc_bench is told. Sets flags of absl::flags from a command
// line, and reads the values that it cannot read by itself. What is wrong is
// INVALID_ARGUMENT, with the flag, what was seen and what would do.
//
// absl::ParseCommandLine() would do, but it ends the program with exit code 1
// whatever it finds, --help included, lets a flag be given twice, and knows no
// flag with a value that may be left out.

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
  int client = -1;  // -1: what suits the machine.
  int server = -1;
};

// Streams of one connection at once.
inline constexpr int kMaxStreams = 1024;

// The flags of main.cc, which say what each is and what it may be.
struct Options {
  std::string target;
  std::vector<std::string> layers;
  std::vector<uint64_t> sizes_bytes = {};
  std::vector<int> outstanding = {};
  std::string payload;  // "field", "attachment", or empty: by size.
  Case measured;        // What all cases have in common.
  absl::Duration duration;
  bool inline_callbacks = false;  // See ChannelOptions.
  bool events = false;
  bool verbs_count = false;
  Pinning pinning = {};
  std::vector<Op> verbs_ops = {};
  // The device, and what the flags mean to the transport.
  transport::EndpointOptions endpoint = {};
};

// Sets the flags of the program by `arguments`, which follow its name; hyphens
// in names stand for underscores. `implied` has values of flags that are given
// without one, by name; a bool is true then. Returns the names of those given,
// in C++.
absl::StatusOr<std::set<std::string>> SetFlags(
    absl::Span<const char* const> arguments,
    const std::map<std::string, std::string>& implied);

// Every flag of the program with its default and its help, by name.
std::string FlagsHelp();

// The error of a flag that is not as it should be.
absl::Status WrongFlag(absl::string_view flag, const absl::AlphaNum& seen,
                       absl::string_view wanted);

// Bytes up to `max`: "64", "4KiB", "1M".
absl::StatusOr<uint64_t> ReadBytes(absl::string_view flag,
                                   absl::string_view text, uint64_t max);

// A number from `min` to `max`.
absl::StatusOr<int> ReadNumber(absl::string_view flag, absl::string_view text,
                               int min, int max);

// Whether each of `words` is one of `allowed`, which has commas in between.
absl::Status CheckWords(absl::string_view flag,
                        const std::vector<std::string>& words,
                        absl::string_view allowed);

// "off", "0,1", or one for both; empty: what suits the machine.
absl::StatusOr<Pinning> ReadPinning(absl::string_view flag,
                                    absl::string_view text);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_FLAGS_H_
