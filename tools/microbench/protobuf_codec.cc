// A message with one field of bytes, written to memory and read from it.

#include "rpc/internal/codec/protobuf_codec.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "benchmark/benchmark.h"
#include "tools/microbench/payload.pb.h"

namespace verbena::internal {
namespace {

constexpr uint64_t kLimit = uint64_t{64} << 20;

bench::Payload Message(int64_t bytes) {
  bench::Payload message;
  message.set_bytes(std::string(bytes, 'x'));
  return message;
}

// Measuring comes before writing, because the transport asks for the length
// first.
void Write(benchmark::State& state) {
  const bench::Payload message = Message(state.range(0));
  std::vector<uint8_t> out(state.range(0) + 64);
  for (auto _ : state) {
    const absl::StatusOr<uint64_t> bytes = MeasureMessage(message, kLimit);
    WriteMessage(message, *bytes, out.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(Write)->Arg(64)->Arg(4096)->Arg(64 << 10);

// The message is used again and again, so its memory is not allocated anew.
void Parse(benchmark::State& state) {
  const std::string text = Message(state.range(0)).SerializeAsString();
  const absl::Span<const uint8_t> bytes(
      reinterpret_cast<const uint8_t*>(text.data()), text.size());
  bench::Payload message;
  for (auto _ : state) {
    benchmark::DoNotOptimize(ParseMessage(bytes, &message));
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(Parse)->Arg(64)->Arg(4096)->Arg(64 << 10);

}  // namespace
}  // namespace verbena::internal
