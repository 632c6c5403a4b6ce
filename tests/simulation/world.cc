#include "tests/simulation/world.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "absl/time/time.h"
#include "rpc/internal/client/shared_pollers.h"
#include "transport/base/clock.h"

namespace {

// Null until there is a world.
std::atomic<const verbena::soft::Simulation*> clock_of_the_world{nullptr};

}  // namespace

// Instead of the system's, for the whole program.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const verbena::soft::Simulation* const world = clock_of_the_world;
  if (world == nullptr ||
      (clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME)) {
    return static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  }
  const auto now = world->Now().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now);
  time->tv_sec = seconds.count();
  time->tv_nsec = std::chrono::nanoseconds(now - seconds).count();
  return 0;
}

namespace verbena::simulation {
namespace {

// Simulated time of a step in which something was done.
constexpr absl::Duration kRound = absl::Microseconds(1);
// Nobody looks further ahead.
constexpr absl::Duration kHorizon = absl::Minutes(1);

soft::Simulation::TimePoint ToTimePoint(absl::Time time) {
  return soft::Simulation::TimePoint(
      std::chrono::nanoseconds(absl::ToUnixNanos(time)));
}

}  // namespace

World& World::Get() {
  static World* const world = new World;
  return *world;
}

World::World() : device_(soft::Simulation::Begin()) {
  clock_of_the_world = &device_;
  internal::SharedPollers::Simulate();
}

absl::Time World::Now() const { return base::Now(); }

void World::Seed(uint64_t seed) {
  internal::SharedPollers::Simulate().Seed(seed);
}

bool World::RunActions() {
  bool busy = false;
  while (!actions_.empty() && actions_.begin()->first <= Now()) {
    const std::function<void()> action = std::move(actions_.begin()->second);
    actions_.erase(actions_.begin());
    action();
    busy = true;
  }
  return busy;
}

bool World::StepParts(bool all) {
  bool busy = internal::SharedPollers::Simulate().Step();
  all = all || busy;
  for (size_t i = 0; i < servers_.size(); ++i) {
    if (all || servers_[i]->NextStep() <= Now()) {
      busy = servers_[i]->Step() || busy;
    }
  }
  return busy;
}

absl::Time World::NextStep() const {
  absl::Time next = internal::SharedPollers::Simulate().NextStep();
  for (const transport::ServerEndpoint* server : servers_) {
    next = std::min(next, server->NextStep());
  }
  return actions_.empty() ? next : std::min(next, actions_.begin()->first);
}

// After a quiet step only what is due can have something to do. Otherwise each
// of many servers would look whenever one of them is due.
void World::Step() {
  // A Shutdown() in an action steps, too: then the outer step only goes on.
  bool busy = RunActions();
  busy = StepParts(/*all=*/busy || !quiet_) || busy;
  const absl::Time soon = Now() + kRound;
  const absl::Time latest =
      busy ? soon : std::clamp(NextStep(), soon, soon + kHorizon);
  // The device moves the clock: by a round if it had something to do.
  device_.Step(ToTimePoint(latest));
  quiet_ = !busy && Now() > soon;
}

bool World::RunUntil(const std::function<bool()>& done, absl::Time latest) {
  LookEverywhere();
  while (!done()) {
    if (Now() >= latest) return false;
    Step();
  }
  return true;
}

// The action bounds the last step, which would else lead to the next event.
void World::RunFor(absl::Duration time) {
  const absl::Time end = Now() + time;
  At(end, [] {});
  RunUntil([] { return false; }, end);
}

}  // namespace verbena::simulation
