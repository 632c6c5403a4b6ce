// A lease of registered memory.

#include "transport/memory/buffer_pool.h"

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "benchmark/benchmark.h"
#include "transport/memory/fake_registrar.h"

namespace verbena::transport {
namespace {

// All but the first lease come from the lock-free lists.
void LeaseAndReturn(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  FakeRegistrar registrar;
  BufferPool::Options options;
  options.first_region_bytes = uint64_t{16} << 20;
  options.max_bytes = uint64_t{16} << 20;
  // A single region, so that no registration is measured.
  options.max_regions = 1;
  options.largest_bytes = uint64_t{1} << 20;
  const absl::StatusOr<std::unique_ptr<BufferPool>> pool =
      BufferPool::Create(registrar.pd(), options);
  for (auto _ : state) {
    absl::StatusOr<Buffer> buffer = (*pool)->Allocate(bytes);
    benchmark::DoNotOptimize(buffer->data());
  }
}
BENCHMARK(LeaseAndReturn)->Arg(4096)->Arg(64 << 10)->Arg(1 << 20);

}  // namespace
}  // namespace verbena::transport
