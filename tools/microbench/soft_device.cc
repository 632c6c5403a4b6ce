// The software device in one process: a message posted at one end of a
// connection and taken at the other.

#include <cstdint>

#include "benchmark/benchmark.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

constexpr size_t kLargest = 64 << 10;

TestEndOptions Options() {
  TestEndOptions options;
  options.send_depth = options.receive_depth = 128;
  options.completions = 1024;
  options.memory_bytes = 2 * kLargest;
  return options;
}

// Polls until a receive of `to` is complete, and the sends of `from` meanwhile.
void Take(TestEnd& from, TestEnd& to) {
  ibv_wc completion;
  while (!to.PollOnce(completion)) from.PollOnce(completion);
}

// Posts as soon as the acknowledgements of earlier messages leave room.
void Send(TestEnd& from, TestEnd& to, size_t bytes, unsigned int flags) {
  while (from.Send(0, 0, bytes, flags) != 0) {
    ibv_wc completion;
    to.PollOnce(completion);
    from.PollOnce(completion);
  }
}

// Both ends are polled by one thread, so the time has no wake-ups in it.
void SendAndReceive(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  TestEnd from(Options());
  TestEnd to(Options());
  ConnectManually(from, to);
  uint64_t sent = 0;
  for (auto _ : state) {
    to.Receive(0, kLargest, kLargest);
    // Signals one SEND in sixteen, as the transport does (kSignalInterval).
    const unsigned int flags = (++sent % 16 == 0 ? IBV_SEND_SIGNALED : 0) |
                               (bytes <= 64 ? IBV_SEND_INLINE : 0);
    Send(from, to, bytes, flags);
    Take(from, to);
    ibv_wc completion;
    from.PollOnce(completion);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(SendAndReceive)->Arg(0)->Arg(64)->Arg(4096)->Arg(kLargest);

// The poll of a connection on which nothing happens.
void PollNothing(benchmark::State& state) {
  TestEnd from(Options());
  TestEnd to(Options());
  ConnectManually(from, to);
  ibv_wc completion;
  for (auto _ : state) benchmark::DoNotOptimize(to.PollOnce(completion));
}
BENCHMARK(PollNothing);

}  // namespace
}  // namespace verbena::soft
