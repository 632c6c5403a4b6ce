#include "tools/load/callers.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <thread>

#include "tools/load/meter.h"

namespace verbena::bench {
namespace {

using std::chrono::nanoseconds;

// Sleeps until a time of CLOCK_MONOTONIC.
void SleepUntil(Clock::time_point time) {
  const timespec until =
      absl::ToTimespec(absl::FromChrono(time.time_since_epoch()));
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) ==
         EINTR) {
  }
}

struct Caller {
  // Makes one call after the other until the measurement is over or a call
  // fails. In an open loop it sleeps until the next call is due.
  void Run(const BlockingCall& call, const Schedule& schedule,
           Clock::time_point first_due) {
    // By default the kernel may let a thread sleep 50 us too long. That is half
    // the period of 10,000 calls a second.
    prctl(PR_SET_TIMERSLACK, 1);
    Meter meter(schedule, first_due);
    SleepUntil(first_due);
    absl::Status status;
    // The time at which the next call would begin decides whether there is one.
    for (Clock::time_point now = Clock::now();
         status.ok() && !meter.Over(std::max(now, meter.next_due()));) {
      if (!meter.Due(now)) SleepUntil(meter.next_due());
      const Clock::time_point begun = Clock::now();
      meter.Start(begun);
      status = call();
      now = ended = Clock::now();
      meter.End(begun, ended, status);
      meter.LeaveOutMissed(begun, ended);
    }
    sample = meter.Finish();
  }

  Sample sample;
  Clock::time_point ended;  // When its last call ended.
};

}  // namespace

// Starts a thread for each caller, with first calls spread over one interval.
// When all threads have ended, it merges their samples.
Sample RunCallers(const std::vector<BlockingCall>& callers,
                  const Case& measured, absl::Duration duration,
                  absl::FunctionRef<void()> at_start,
                  absl::FunctionRef<void()> at_end) {
  const auto count = static_cast<int>(callers.size());
  // The first milliseconds are for starting the threads.
  const Clock::time_point begin =
      Clock::now() + std::chrono::milliseconds(count);
  Case of_each = measured;
  of_each.rate_per_s /= count;
  const Schedule schedule(of_each, duration, begin);
  std::vector<Caller> counted(callers.size());
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      counted[i].Run(callers[i], schedule,
                     begin + schedule.interval * i / count);
    });
  }
  SleepUntil(schedule.warm_at_least);
  at_start();
  for (std::thread& thread : threads) thread.join();
  at_end();

  Sample all;
  // The rate counts up to the end of the last call, even if that was late.
  Clock::time_point ended = schedule.warm_at_most + schedule.length;
  for (const Caller& caller : counted) {
    // The first error of any caller stands for all.
    if (all.first_error.ok()) all.first_error = caller.sample.first_error;
    all.errors += caller.sample.errors;
    all.ended += caller.sample.ended;
    all.late += caller.sample.late;
    all.latencies.Merge(caller.sample.latencies);
    all.calls_of_callers.push_back(caller.sample.latencies.count());
    ended = std::max(ended, caller.ended);
  }
  std::sort(all.calls_of_callers.begin(), all.calls_of_callers.end());
  all.calls_per_s =
      static_cast<double>(all.latencies.count()) /
      std::chrono::duration<double>(ended - schedule.warm_at_least).count();
  return all;
}

}  // namespace verbena::bench
