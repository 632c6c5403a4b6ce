// The cases that are measured, and their results. All layers have the same
// cases and results.

#ifndef VERBENA_TOOLS_LOAD_WORKLOAD_H_
#define VERBENA_TOOLS_LOAD_WORKLOAD_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tools/load/latency_histogram.h"

namespace verbena::bench {

// The operation that a case repeats.
enum class Op {
  kEcho,   // Bytes go to the server and come back.
  kSend,   // Bytes go one way, by SEND; a completion ends the call.
  kWrite,  // As kSend, but by RDMA WRITE to the server's memory.
  kRead,   // As kSend, but by RDMA READ from the server's memory.
};

// In the order of Op.
inline constexpr absl::string_view kOpNames[] = {"echo", "send", "write",
                                                 "read"};

inline absl::string_view OpName(Op op) {
  return kOpNames[static_cast<size_t>(op)];
}

// How the rpc layer moves messages. kUnary echoes by calls, and kBidi by the
// messages of a stream. In kClient and kServer streams, only that side writes.
enum class Kind { kUnary, kClient, kServer, kBidi };

// In the order of Kind.
inline constexpr absl::string_view kKindNames[] = {"unary", "client", "server",
                                                   "bidi"};

// The API with which calls and handlers of the rpc layer are written.
enum class Api { kBlocking, kCallback, kCoroutine };

// In the order of Api.
inline constexpr absl::string_view kApiNames[] = {"blocking", "callback",
                                                  "coroutine"};

// "64 B", "4 KiB", "1 MiB": in the largest unit that `bytes` is a multiple of.
std::string SizeName(uint64_t bytes);

// Rounds to the digits that a run can measure; by default, three decimals.
inline double Rounded(double value, double steps = 1e3) {
  return std::round(value * steps) / steps;
}

// A measurement to make.
struct Case {
  Op op = Op::kEcho;
  uint64_t size_bytes = 0;
  int outstanding = 1;

  Kind kind = Kind::kUnary;
  Api api = Api::kBlocking;

  // At the rpc layer, if not 0: the number of streams, each of which has one
  // message outstanding. If 0, one stream has `outstanding` messages under way.
  int streams = 0;

  // At the rpc layer the payload travels beside the message, not in it.
  bool attachment = false;

  // Whether to compare the contents of every echo, each of which differs from
  // the one before. If false, only the first one's contents are compared.
  bool validate = false;

  // Calls to start in a second, by the clock: an open loop. If 0, a call starts
  // when the one before it has ended.
  double rate_per_s = 0;

  // How many calls to measure, however long they take. If 0, as many as the
  // duration allows.
  uint64_t iterations = 0;

  // How long calls are made that do not count. If absent, as long as suits the
  // duration, and until they have touched all memory.
  std::optional<absl::Duration> warm_up = {};
};

// The results of a case.
struct Sample {
  LatencyHistogram latencies = {};  // Only of calls that succeeded.
  uint64_t errors = 0;
  absl::Status first_error;  // OK while `errors` is 0.
  double calls_per_s = 0;    // Only those that succeeded.
  // All calls that ended, including those of the warm-up.
  uint64_t ended = 0;
  // In an open loop: calls that were due but never started, because
  // `outstanding` calls were already under way.
  uint64_t unstarted = 0;
  // With callers in an open loop: calls that were due before the caller's
  // previous call had ended, and were not left out.
  uint64_t late = 0;
  // With callers: the calls of each, in ascending order.
  std::vector<uint64_t> calls_of_callers = {};
  // With several streams: the messages of the slowest one, divided by the mean
  // of all. Otherwise 0.
  double least_share = 0;
};

// Returns a payload in which blocks of 256 bytes differ from their neighbours.
std::string Payload(uint64_t size_bytes);

// Bytes of a string, as the layers move them.
inline absl::Span<uint8_t> BytesOf(std::string& text) {
  return {reinterpret_cast<uint8_t*>(text.data()), text.size()};
}
inline absl::Span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Compares echoes with what was sent: their lengths, and the contents of all or
// of the first one that is right.
class EchoCheck {
 public:
  explicit EchoCheck(bool every) : every_(every) {}

  // Makes `payload`, which is to be sent, differ from that of other calls in
  // its first eight bytes, or in all if it is shorter, if all are compared.
  void Stamp(absl::Span<uint8_t> payload) {
    if (!every_ || payload.empty()) return;
    ++number_;
    std::memcpy(payload.data(), &number_,
                std::min(payload.size(), sizeof(number_)));
  }

  // OK, or DATA_LOSS.
  absl::Status Compare(absl::Span<const uint8_t> got,
                       absl::Span<const uint8_t> sent) {
    const bool contents = every_ || !compared_;
    if (got.size() == sent.size() && !contents) return absl::OkStatus();
    return CompareContents(got, sent);
  }

 private:
  absl::Status CompareContents(absl::Span<const uint8_t> got,
                               absl::Span<const uint8_t> sent);

  const bool every_;
  bool compared_ = false;  // The contents of an echo were found right.
  uint64_t number_ = 0;    // The last call's.
};

// Sets the percentiles, the maximum and the mean of a row of results, which is
// a protobuf message. REQUIRES: latencies.count() > 0.
template <typename Row>
void SetLatencies(const LatencyHistogram& latencies, Row& row) {
  row.set_p50_us(latencies.Quantile(0.5) / 1e3);
  row.set_p90_us(latencies.Quantile(0.9) / 1e3);
  row.set_p99_us(latencies.Quantile(0.99) / 1e3);
  row.set_p999_us(latencies.Quantile(0.999) / 1e3);
  row.set_max_us(latencies.max() / 1e3);
  row.set_mean_us(Rounded(latencies.Mean() / 1e3));
}

// A way to send bytes to a server and get them back. For one thread.
class Layer {
 public:
  virtual ~Layer() = default;

  // Its name in the reports: "rpc".
  virtual absl::string_view name() const = 0;

  // Prepares Run() of the same case, outside of the measured time.
  virtual absl::Status Prepare(const Case& /*measured*/) {
    return absl::OkStatus();
  }

  // Echoes payloads of `size_bytes`, `outstanding` at a time, until `duration`
  // has passed after a warm-up. An echo that fails, or returns other bytes, is
  // an error in the sample.
  virtual Sample Run(const Case& measured, absl::Duration duration) = 0;

  // Undoes Prepare().
  virtual void Release() {}
};

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_LOAD_WORKLOAD_H_
