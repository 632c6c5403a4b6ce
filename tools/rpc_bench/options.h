// The command line of rpc_bench.

#ifndef VERBENA_TOOLS_RPC_BENCH_OPTIONS_H_
#define VERBENA_TOOLS_RPC_BENCH_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace verbena::bench {

struct Options {
  bool help = false;
  bool server = false;  // Serve until SIGINT or SIGTERM; measure nothing.
  bool json = false;

  // Where a server listens. Only with `server`.
  std::string listen = "0.0.0.0:50051";

  // The server to measure. Empty: one of our own, for as long as it takes.
  std::string target;

  // The device to use. Empty: the best at hand.
  std::string device;

  std::vector<uint64_t> sizes_bytes = {64, 4 << 10, 64 << 10, 1 << 20};
  std::vector<int> outstanding = {1, 32};

  // Of each measurement, after its warm-up.
  absl::Duration duration = absl::Seconds(1);
};

// Reads the arguments that follow the program's name. Fails with
// INVALID_ARGUMENT for an unknown flag, a value that is out of range or cannot
// be read, and flags that exclude one another; the message says what would do.
absl::StatusOr<Options> ParseOptions(absl::Span<const char* const> arguments);

// What --help prints.
absl::string_view Usage();

// "64 B", "4 KiB", "1 MiB": in the largest unit that `bytes` is a multiple of.
std::string SizeName(uint64_t bytes);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_OPTIONS_H_
