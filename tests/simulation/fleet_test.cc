// Channels to services of many servers, in one thread on a manual clock:
// servers die, return, drain, stall and lie, and registries err, as drawn from
// a seed. seed_tests.h has the command line.

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "rpc/logging.h"
#include "tests/simulation/fleet_run.h"
#include "tests/simulation/fleet_scenario.h"
#include "tests/simulation/seed_tests.h"
#include "tests/simulation/world.h"
#include "transport/faulty/fault_plan.h"
#include "transport/faulty/faulty_provider.h"
#include "transport/soft/soft_provider.h"

namespace verbena::simulation {
namespace {

using Shares = std::map<size_t, FleetRun::Share>;

// Sums over all seeds.
Shares& AllShares() {
  static auto* const shares = new Shares;
  return *shares;
}

std::string RunSeed(uint64_t seed) {
  static transport::FaultPlan no_faults;
  static transport::FaultyProvider faulty(soft::SoftProvider(), no_faults);
  const FleetScenario scenario(seed);
  if (RunsOneSeed()) {
    SetLogSink(
        [](const LogEntry& entry) {
          std::printf(
              "%s: %s\n",
              absl::FormatTime("%E6S", entry.time, absl::UTCTimeZone()).c_str(),
              std::string(entry.text).c_str());
        },
        LogSeverity::kInfo);
  } else {
    SetLogSink([](const LogEntry& /*entry*/) {});
  }
  // Seeds of channels follow each other.
  World::Get().Seed(seed << 20);
  FleetRun run(&World::Get(), &scenario, &faulty);
  run.Execute();
  for (const auto& [server, share] : run.shares()) {
    FleetRun::Share& all = AllShares()[server];
    all.clients += share.clients;
    all.expected += share.expected;
    all.variance += share.variance;
  }
  return run.trace();
}

// Each server has as many clients as its share, but for what chance does:
// six standard deviations, and one for the rounding.
void CheckAll() {
  for (const auto& [server, share] : AllShares()) {
    EXPECT_NEAR(share.clients, share.expected,
                6 * std::sqrt(share.variance) + 1)
        << "server " << server;
  }
}

}  // namespace
}  // namespace verbena::simulation

int main(int argc, char** argv) {
  return verbena::simulation::RunSeedTests(
      argc, argv,
      {.run = verbena::simulation::RunSeed,
       .check_all = verbena::simulation::CheckAll,
       .longest = absl::Seconds(15),
       .repeated = 10});
}
