// The arithmetic of one frame there and one back.

#include "transport/session/credit_window.h"

#include <cstdint>

#include "benchmark/benchmark.h"
#include "transport/base/limits.h"

namespace verbena::transport {
namespace {

// The arithmetic of both sides, without the frames themselves.
void FrameThereAndBack(benchmark::State& state) {
  SendCredits send(kCredits, kCredits);
  ReceiveCredits receive(kCredits);
  for (auto _ : state) {
    send.Take();
    benchmark::DoNotOptimize(receive.Receive());
    benchmark::DoNotOptimize(send.Update(receive.Advertise()));
  }
}
BENCHMARK(FrameThereAndBack);

}  // namespace
}  // namespace verbena::transport
