#include "tools/peer_bench/load.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/base/status_macros.h"

namespace verbena::peers {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// All times are nanoseconds of CLOCK_MONOTONIC.
int64_t Now() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * kSecond + now.tv_nsec;
}

void SleepUntil(int64_t time) {
  const timespec until = {.tv_sec = time / kSecond, .tv_nsec = time % kSecond};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) ==
         EINTR) {
  }
}

// When one caller calls.
struct Schedule {
  int64_t first_due = 0;
  int64_t period = 0;  // 0 for back to back.
  int64_t count_from = 0;
  int64_t end = 0;
};

// The counts of one caller.
struct Caller {
  bench::LatencyHistogram latency;
  uint64_t late = 0;
  int64_t ended = 0;
  absl::Status status;
};

void RunCaller(const Echo& echo, const Schedule& schedule, Caller& caller) {
  // By default the kernel may let a thread sleep 50 us too long. That is half
  // the period of 10,000 calls a second.
  prctl(PR_SET_TIMERSLACK, 1);
  int64_t due = schedule.first_due;
  SleepUntil(due);
  for (int64_t begun = Now(); begun < schedule.end; begun = Now()) {
    caller.status = echo();
    if (!caller.status.ok()) break;
    caller.ended = Now();
    const bool counts = begun >= schedule.count_from;
    if (counts) {
      caller.latency.Record(static_cast<uint64_t>(caller.ended - begun));
    }
    if (schedule.period == 0) continue;
    due += schedule.period;
    if (due < caller.ended) {
      if (counts) ++caller.late;
      due += (caller.ended - due) / schedule.period * schedule.period;
    } else if (due < schedule.end) {
      SleepUntil(due);
    } else {
      break;
    }
  }
}

}  // namespace

absl::StatusOr<LoadResult> RunLoad(const LoadOptions& options,
                                   const std::vector<Echo>& callers,
                                   absl::FunctionRef<void()> at_start,
                                   absl::FunctionRef<void()> at_end) {
  const auto count = static_cast<int64_t>(callers.size());
  const int64_t between =
      options.rate > 0 ? static_cast<int64_t>(kSecond / options.rate) : 0;
  // Time to start the threads.
  const int64_t begin = Now() + count * 1'000'000;
  Schedule schedule = {
      .period = between * count,
      .count_from = begin + absl::ToInt64Nanoseconds(options.warm_up)};
  schedule.end =
      schedule.count_from + absl::ToInt64Nanoseconds(options.duration);

  std::vector<Caller> counted(callers.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < callers.size(); ++i) {
    schedule.first_due = begin + static_cast<int64_t>(i) * between;
    threads.emplace_back(RunCaller, callers[i], schedule, std::ref(counted[i]));
  }
  SleepUntil(schedule.count_from);
  at_start();
  for (std::thread& thread : threads) thread.join();
  at_end();

  LoadResult result;
  int64_t ended = schedule.end;
  for (const Caller& caller : counted) {
    RETURN_IF_ERROR(caller.status);
    result.latency.Merge(caller.latency);
    result.late += caller.late;
    result.calls.push_back(caller.latency.count());
    ended = std::max(ended, caller.ended);
  }
  std::sort(result.calls.begin(), result.calls.end());
  result.seconds = static_cast<double>(ended - schedule.count_from) / kSecond;
  return result;
}

}  // namespace verbena::peers
