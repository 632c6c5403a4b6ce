#include "rpc/internal/metrics/method_counters.h"

namespace verbena::internal {

static_assert(LatencyMetrics::kBuckets == base::LatencyCounters::kBuckets);

// Adds each counter, so that several pollers can add to the same metrics. The
// messages of streams count among the bytes of their method.
void MethodCounters::AddTo(MethodMetrics* metrics) const {
  // Read ended_ before started_, so that no more calls have ended than started.
  for (size_t i = 0; i < ended_.size(); ++i) {
    metrics->ended[i] += ended_[i].value();
  }
  metrics->started += started_.value();
  for (size_t i = 0; i < LatencyMetrics::kBuckets; ++i) {
    metrics->latency.counts[i] += latency_.count(static_cast<int>(i));
  }
  metrics->latency.sum_seconds +=
      static_cast<double>(latency_.sum_nanos()) * 1e-9;
  const auto add = [](const Streamed& stream, uint64_t* messages,
                      uint64_t* bytes) {
    *messages += stream.messages.load(std::memory_order_relaxed);
    *bytes += stream.bytes.load(std::memory_order_relaxed);
  };
  metrics->request_bytes += request_bytes_.value();
  metrics->response_bytes += response_bytes_.value();
  add(stream_requests_, &metrics->stream_requests, &metrics->request_bytes);
  add(stream_responses_, &metrics->stream_responses, &metrics->response_bytes);
}

}  // namespace verbena::internal

namespace verbena {

uint64_t MethodMetrics::ended_in_all() const {
  uint64_t sum = 0;
  for (const uint64_t count : ended) sum += count;
  return sum;
}

}  // namespace verbena
