#include "transport/soft/simulation.h"

#include <algorithm>

#include "transport/soft/device/soft_device.h"

namespace verbena::soft {
namespace {

// The time that a round of the device takes on the manual clock. If it took
// none, what goes on "until nothing has moved for a while" would never end.
constexpr std::chrono::microseconds kRound(1);

}  // namespace

Simulation& Simulation::Begin() {
  static auto* const simulation = new Simulation(SoftDevice::GetSimulated());
  return *simulation;
}

Simulation::TimePoint Simulation::Now() const {
  return device_.engine().clock().Now();
}

// While there is work, the clock moves by little; otherwise it jumps to the
// next time at which there is some.
bool Simulation::Step(TimePoint latest) {
  Engine& engine = device_.engine();
  if (Now() >= latest) return false;
  if (engine.RunOnce()) {
    engine.clock().MoveTo(Now() + kRound);
  } else {
    engine.clock().MoveTo(std::min(latest, engine.NextDue()));
  }
  return true;
}

void Simulation::RunFor(std::chrono::nanoseconds time) {
  const TimePoint end = Now() + time;
  while (Step(end)) {
  }
}

bool Simulation::RunUntil(const std::function<bool()>& done,
                          std::chrono::nanoseconds longest) {
  const TimePoint end = Now() + longest;
  do {
    if (done()) return true;
  } while (Step(end));
  return done();
}

}  // namespace verbena::soft
