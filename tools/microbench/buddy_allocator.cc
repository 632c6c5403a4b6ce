// A block taken and given back.

#include "transport/memory/buddy_allocator.h"

#include <cstdint>
#include <optional>

#include "benchmark/benchmark.h"

namespace verbena::transport {
namespace {

constexpr uint64_t kCapacity = uint64_t{64} << 20;

// The range is empty each time, so a block is split from the whole and joined
// again.
void AllocateAndFree(benchmark::State& state) {
  const auto bytes = static_cast<uint64_t>(state.range(0));
  BuddyAllocator allocator(kCapacity);
  for (auto _ : state) {
    const std::optional<uint64_t> offset = allocator.Allocate(bytes);
    benchmark::DoNotOptimize(offset);
    allocator.Free(*offset, bytes);
  }
}
BENCHMARK(AllocateAndFree)->Arg(4096)->Arg(64 << 10)->Arg(1 << 20);

}  // namespace
}  // namespace verbena::transport
