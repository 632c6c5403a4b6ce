// What is measured, whatever layer it is measured at.

#ifndef VERBENA_TOOLS_RPC_BENCH_WORKLOAD_H_
#define VERBENA_TOOLS_RPC_BENCH_WORKLOAD_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tools/rpc_bench/latency_histogram.h"
#include "tools/rpc_bench/report.pb.h"

namespace verbena::bench {

// What is done again and again.
enum class Op {
  kEcho,   // Bytes go to the server and come back.
  kSend,   // The other three go one way and are known to be there: SEND,
  kWrite,  // RDMA WRITE to the server's memory,
  kRead,   // RDMA READ from it.
};

// "echo", "send", "write", "read".
absl::string_view OpName(Op op);

// "64 B", "4 KiB", "1 MiB": in the largest unit that `bytes` is a multiple of.
std::string SizeName(uint64_t bytes);

// One measurement to make.
struct Case {
  Op op = Op::kEcho;
  uint64_t size_bytes = 0;
  int outstanding = 1;

  // At the rpc layer the payload travels beside the message, not in it.
  bool attachment = false;

  // Compare the contents of every echo, each different from the one before;
  // else of the first one only.
  bool validate = false;

  // Calls to start in a second, by the clock: an open loop. 0: a call starts
  // when the one before it has ended.
  double rate_per_s = 0;

  // How many calls to measure, however long they take. 0: as many as the
  // duration allows.
  uint64_t iterations = 0;
};

// What happened in the measured time of one case.
struct Sample {
  LatencyHistogram latencies;  // Only of calls that succeeded.
  uint64_t errors = 0;
  absl::Status first_error;  // OK while `errors` is 0.
  double calls_per_s = 0;    // Only those that succeeded.
  // Everything that ended, the warm-up included.
  uint64_t ended = 0;
  // Open loop: calls whose time had come and that were never started, because
  // all that may be outstanding were.
  uint64_t unstarted = 0;
};

// What came of one case, for the report, and all its latencies.
struct Outcome {
  Report::Result result;
  LatencyHistogram latencies;
};

// What client and server have used so far.
struct Usage {
  absl::Duration cpu;  // The time that both spent.
  VerbsCost client_verbs;
  VerbsCost server_verbs;
  bool verbs_are_counted = false;
};

// A payload in which no two 256-byte blocks that are near are alike.
std::string Payload(uint64_t size_bytes);

// Makes the payload of call `number` differ from that of other calls, in its
// first eight bytes, or in all if it is shorter.
void Stamp(uint64_t number, absl::Span<uint8_t> payload);

// OK, or DATA_LOSS when an echo is not what was sent: in length, and if
// `contents`, in any byte.
absl::Status CheckEcho(absl::Span<const uint8_t> got,
                       absl::Span<const uint8_t> want, bool contents);

// A way to send bytes to a server and get them back. For one thread.
class Layer {
 public:
  virtual ~Layer() = default;

  // Its name in the reports: "rpc".
  virtual absl::string_view name() const = 0;

  // Makes ready what Run() of the same case needs and is not to be measured.
  virtual absl::Status Prepare(const Case& /*measured*/) {
    return absl::OkStatus();
  }

  // Echoes payloads of `size_bytes`, `outstanding` at a time, until `duration`
  // has passed after a warm-up, and checks what comes back. An echo that fails,
  // or brings back something else, is an error in the sample.
  virtual Sample Run(const Case& measured, absl::Duration duration) = 0;

  // Undoes Prepare().
  virtual void Release() {}
};

// Every size with every number outstanding, size by size; the rest as in
// `common`.
std::vector<Case> Cases(absl::Span<const uint64_t> sizes_bytes,
                        absl::Span<const int> outstanding,
                        const Case& common = {});

// Turns counts into the rates and percentiles of a report.
Outcome Summarize(absl::string_view layer, const Case& measured,
                  const Sample& sample);

// A sample of one failure, of what could not even begin.
Sample FailedSample(const absl::Status& error);

// Runs each case at each layer before the next case: what is compared was
// measured at nearly the same time. `on_start` is told of each measurement
// before it runs. `usage` fails if that can't be known.
std::vector<Outcome> RunCases(
    absl::Span<Layer* const> layers, absl::Span<const Case> cases,
    absl::Duration duration,
    absl::FunctionRef<void(const Layer&, const Case&)> on_start,
    absl::FunctionRef<absl::StatusOr<Usage>()> usage);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_WORKLOAD_H_
