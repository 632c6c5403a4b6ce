// The way into a poller.

#include "transport/base/mpsc_queue.h"

#include <vector>

#include "benchmark/benchmark.h"

namespace verbena::base {
namespace {

struct Task : MpscNode {};

// `batch` tasks pushed, then all taken: 1 is a task posted to an idle poller.
void PushAndTake(benchmark::State& state) {
  const auto batch = static_cast<size_t>(state.range(0));
  std::vector<Task> tasks(batch);
  MpscQueue<Task> queue;
  for (auto _ : state) {
    for (Task& task : tasks) benchmark::DoNotOptimize(queue.Push(&task));
    queue.TakeAll([](Task* task) { benchmark::DoNotOptimize(task); });
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(PushAndTake)->Arg(1)->Arg(32);

// The look at an empty queue, which a poller takes in every round.
void FindNothing(benchmark::State& state) {
  MpscQueue<Task> queue;
  for (auto _ : state) benchmark::DoNotOptimize(queue.empty());
}
BENCHMARK(FindNothing);

}  // namespace
}  // namespace verbena::base
