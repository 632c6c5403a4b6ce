// Checking and reading a frame.

#include "transport/wire/frame_codec.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "benchmark/benchmark.h"
#include "transport/wire/frame.h"

namespace verbena::transport {
namespace {

// A REQUEST with `message_bytes` inside.
std::vector<uint8_t> Request(uint32_t message_bytes) {
  RequestHeader header = {};
  header.frame.type = FrameType::kRequest;
  header.frame.header_bytes = HeaderBytes(FrameType::kRequest);
  header.frame.call_id = 0x00010002;
  header.frame.body_bytes = message_bytes;
  header.timeout_us = kNoTimeout;
  header.message_bytes = message_bytes;
  std::vector<uint8_t> frame(sizeof(header) + message_bytes);
  std::memcpy(frame.data(), &header, sizeof(header));
  return frame;
}

// FrameError() alone, which every frame that is not plain has to pass.
void CheckRequest(benchmark::State& state) {
  const std::vector<uint8_t> frame =
      Request(static_cast<uint32_t>(state.range(0)));
  if (FrameError(frame) != nullptr) state.SkipWithError(FrameError(frame));
  for (auto _ : state) benchmark::DoNotOptimize(FrameError(frame));
}
BENCHMARK(CheckRequest)->Arg(64)->Arg(4096);

// Copying the header out and cutting the body into its parts.
void ReadRequest(benchmark::State& state) {
  const std::vector<uint8_t> frame = Request(64);
  for (auto _ : state) {
    benchmark::DoNotOptimize(LoadHeader<RequestHeader>(frame));
    benchmark::DoNotOptimize(SplitRequest(frame));
  }
}
BENCHMARK(ReadRequest);

}  // namespace
}  // namespace verbena::transport
