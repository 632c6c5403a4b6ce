// A run of rpc_bench, as a client or as a server.

#ifndef VERBENA_TOOLS_RPC_BENCH_BENCH_H_
#define VERBENA_TOOLS_RPC_BENCH_BENCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rpc/credentials/tls_files.h"
#include "tools/load/workload.h"
#include "tools/rpc_bench/report.pb.h"
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
  bool inline_callbacks = false;  // See ChannelOptions, and the next one, too.
  int max_paths = 0;
  std::string service_config = {};
  bool events = false;
  bool verbs_count = false;
  Pinning pinning = {};
  std::vector<Op> verbs_ops = {};
  // The device, and the options of the transport that have flags.
  transport::EndpointOptions endpoint = {};
  TlsFiles tls = {};  // Files for the layer rpc.
  // Channels of the layer rpc, and how many of them have calls.
  int channels = 1;
  int busy = 1;
};

// Measures the server that `options` name, or starts one. Each case is measured
// at all layers before the next case, so that results to compare are of nearly
// the same time.
absl::StatusOr<Report> Measure(const Options& options);

// Measures the processor time that idle connections use, and returns a line of
// text about it.
absl::StatusOr<std::string> MeasureIdle(const Options& options);

// Serves until SIGINT or SIGTERM, pinned to the server's processor if the
// options name one. Serves verbena.bench.Echo at `address`, "host:port". The
// other layers have free ports of that host, which Echo.Describe() returns. As
// soon as it serves, prints its listening line to standard output: see
// tools/child/server_child.h.
//
// Blocks the two signals for good. Call it from main(), before any thread
// starts.
absl::Status Serve(const std::string& address, const Options& options);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_BENCH_H_
