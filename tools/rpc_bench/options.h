// What one run of rpc_bench is told.

#ifndef VERBENA_TOOLS_RPC_BENCH_OPTIONS_H_
#define VERBENA_TOOLS_RPC_BENCH_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tools/rpc_bench/workload.h"
#include "transport/base/endpoint_options.h"

namespace verbena::bench {

// Which processors client and server are pinned to.
struct Pinning {
  bool on = true;
  int client = -1;  // -1: what suits the machine.
  int server = -1;
};

// The flags of main.cc, which say what each is and what it may be.
struct Options {
  std::string target;
  std::string device;
  std::vector<std::string> layers;
  std::vector<uint64_t> sizes_bytes = {};
  std::vector<int> outstanding = {};
  std::string payload;  // "field", "attachment", or empty: by size.
  absl::Duration duration;
  uint64_t iterations = 0;  // If not 0, how many calls to measure instead.
  double rate_per_s = 0;    // Not 0: an open loop.
  bool validate = false;
  bool events = false;
  bool verbs_count = false;
  Pinning pinning = {};
  uint64_t continued_max_bytes = 0;
  std::vector<Op> verbs_ops = {};
};

// What they mean to the transport.
inline transport::EndpointOptions EndpointOptionsOf(const Options& options) {
  transport::EndpointOptions endpoint;
  endpoint.device = options.device;
  endpoint.continued_bytes_max =
      static_cast<uint32_t>(options.continued_max_bytes);
  if (options.events) endpoint.spin_budget = absl::ZeroDuration();
  return endpoint;
}

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_OPTIONS_H_
