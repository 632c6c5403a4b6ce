// The options of a run of rpc_bench.

#ifndef VERBENA_TOOLS_RPC_BENCH_FLAGS_H_
#define VERBENA_TOOLS_RPC_BENCH_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tools/load/workload.h"
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

// Reads "off", "0,1", or one processor for both. If `text` is empty, the
// processors are those that suit the machine.
absl::StatusOr<Pinning> ReadPinning(absl::string_view flag,
                                    absl::string_view text);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_FLAGS_H_
