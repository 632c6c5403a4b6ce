// What rpc_bench prints of its results for people.

#ifndef VERBENA_TOOLS_RPC_BENCH_REPORT_H_
#define VERBENA_TOOLS_RPC_BENCH_REPORT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/rpc_bench/workload.h"

namespace verbena::bench {

// All that one run has found.
struct Report {
  std::string device;
  bool events = false;        // Else both sides poll.
  int client_processor = -1;  // Negative: not pinned.
  int server_processor = -1;
  std::vector<Result> results;
  // How much each of the device's hardware counters grew meanwhile; empty when
  // it has none.
  std::map<std::string, int64_t> counters;
};

// The result at `layer` of a case like `like`, or null.
const Result* FindResult(const Report& report, const std::string& layer, Op op,
                         uint64_t size_bytes, int outstanding);

// What a result is relative to the same case at the verbs layer. Negative when
// that was not measured.
double LatencyRatio(const Report& report, const Result& result);
double RateRatio(const Report& report, const Result& result);

// Of an echo: how much faster the bare streams of RDMA READ and WRITE would
// move the same bytes there and back, one after the other: 1 is as fast, less
// is slower. Negative when they were not measured.
double ShareOfRaw(const Report& report, const Result& echo);

// Tables: a line for each size and layer, latencies with the fewest outstanding
// and rates with the most; then the streams, what failed, and the counters.
std::string Table(const Report& report);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_REPORT_H_
