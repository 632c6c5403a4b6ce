// The counters of the calls of one method.

#ifndef VERBENA_RPC_INTERNAL_METRICS_METHOD_COUNTERS_H_
#define VERBENA_RPC_INTERNAL_METRICS_METHOD_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "rpc/metrics.h"
#include "transport/base/counter.h"
#include "transport/base/cycle_rate.h"
#include "transport/base/latency_counters.h"

namespace verbena::internal {

// Messages and bytes that one stream has carried, one way.
struct StreamCount {
  base::Counter messages;
  base::Counter bytes;
};

// Counters of one method, at one poller or one channel. One thread at a time
// counts, unless a comment says otherwise; any thread reads.
class MethodCounters {
 public:
  MethodCounters() = default;
  MethodCounters(const MethodCounters&) = delete;
  MethodCounters& operator=(const MethodCounters&) = delete;

  // A call has begun, with a request of so many bytes.
  void NoteStart(uint64_t request_bytes) {
    started_.Add();
    request_bytes_.Add(request_bytes);
  }
  // The call has ended, after so many TSC cycles. It stands for those before it
  // that were not timed.
  void NoteEnd(absl::StatusCode code, uint64_t cycles) {
    CountEnd(code);
    latency_.Add(rate_.Nanos(cycles), 1 + std::exchange(untimed_, 0));
  }

  // To read the TSC twice takes as long as all else that is counted of a call.
  // So at a server's inline handlers few calls are timed. IsTimed() tells
  // whether the call that has just begun is timed, and NoteUntimedEnd() ends
  // one that is not. At a client CallSampler decides.
  bool IsTimed() const { return started_.value() % kCallsPerTimed == 1; }
  void NoteUntimedEnd(absl::StatusCode code) {
    CountEnd(code);
    ++untimed_;
  }

  void NoteResponse(uint64_t bytes) { response_bytes_.Add(bytes); }
  // A stream is over. Any thread.
  void NoteStream(const StreamCount& requests, const StreamCount& responses) {
    stream_requests_.Note(requests);
    stream_responses_.Note(responses);
  }

  // Adds what was counted to `metrics`. Any thread.
  void AddTo(MethodMetrics* metrics) const;

 private:
  static constexpr uint64_t kCallsPerTimed = 8;
  static constexpr size_t kUnknown =
      static_cast<size_t>(absl::StatusCode::kUnknown);

  struct Streamed {
    std::atomic<uint64_t> messages{0};
    std::atomic<uint64_t> bytes{0};

    void Note(const StreamCount& count) {
      messages.fetch_add(count.messages.value(), std::memory_order_relaxed);
      bytes.fetch_add(count.bytes.value(), std::memory_order_relaxed);
    }
  };

  void CountEnd(absl::StatusCode code) {
    const size_t index = static_cast<size_t>(code);
    ended_[index < ended_.size() ? index : kUnknown].Add();
  }

  const base::CycleRate rate_ = base::CycleRate::OfMachine();
  base::Counter started_;
  base::Counter request_bytes_;
  base::Counter response_bytes_;
  std::array<base::Counter, MethodMetrics::kCodes> ended_;
  base::LatencyCounters latency_;
  uint64_t untimed_ = 0;  // Ended since the last timed one.
  Streamed stream_requests_;
  Streamed stream_responses_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_METRICS_METHOD_COUNTERS_H_
