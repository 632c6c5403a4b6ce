// The cost of LatencyHistogram: how much a Record() adds to a measured call.

#include "tools/load/latency_histogram.h"

#include <cstdint>

#include "benchmark/benchmark.h"

namespace verbena::bench {
namespace {

void Record(benchmark::State& state) {
  LatencyHistogram histogram;
  uint64_t nanoseconds = 500;
  for (auto _ : state) {
    histogram.Record(nanoseconds);
    nanoseconds = (nanoseconds * 5 + 7) % 4096;
  }
}
BENCHMARK(Record);

void Quantile(benchmark::State& state) {
  LatencyHistogram histogram;
  for (uint64_t i = 0; i < 100000; ++i) histogram.Record(i);
  for (auto _ : state) benchmark::DoNotOptimize(histogram.Quantile(0.999));
}
BENCHMARK(Quantile);

}  // namespace
}  // namespace verbena::bench
