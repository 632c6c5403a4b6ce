// Clients and a server in one thread on a manual clock, with calls, faults and
// other troubles drawn from a seed. seed_tests.h has the command line.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tests/simulation/run.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/seed_tests.h"
#include "tests/simulation/world.h"
#include "transport/faulty/fault_plan.h"
#include "transport/faulty/faulty_provider.h"
#include "transport/soft/soft_provider.h"

namespace verbena::simulation {
namespace {

// Runs it, while the server's device fails as `plan` says; returns its trace.
std::string RunScenario(const Scenario& scenario, transport::FaultPlan& plan) {
  static transport::FaultPlan no_faults;
  static transport::FaultyProvider faulty(soft::SoftProvider(), no_faults);
  faulty.SetPlan(plan);
  World::Get().Seed(scenario.fault_seed);
  std::string trace;
  {
    Run run(&World::Get(), &scenario, &faulty);
    run.Execute();
    trace = run.trace();
  }
  faulty.SetPlan(no_faults);
  if (testing::Test::HasFailure()) {
    std::printf("what failed on purpose:\n%s\n",
                absl::StrJoin(plan.faults(), "\n").c_str());
  }
  return trace;
}

std::string RunSeed(uint64_t seed) {
  const Scenario scenario(seed);
  transport::FaultPlan plan;
  scenario.AddFaults(&plan);
  return RunScenario(scenario, plan);
}

constexpr int64_t kNever = -1;

// A call that is to succeed, or is cancelled. All in microseconds and bytes.
struct Row {
  int64_t start, timeout, cancel;
  uint64_t request, reply, request_attachment, reply_attachment;
  size_t channel = 0;
};

Scenario ScenarioOf(absl::Span<const Row> rows, uint64_t arena_bytes) {
  Scenario scenario;
  scenario.arena_bytes = arena_bytes;
  for (const Row& row : rows) {
    CallPlan& call = scenario.calls.emplace_back();
    call.start = absl::Microseconds(row.start);
    call.timeout = absl::Microseconds(row.timeout);
    if (row.cancel != kNever) call.cancel = absl::Microseconds(row.cancel);
    call.request_bytes = row.request;
    call.reply_bytes = row.reply;
    call.request_attachment_bytes = row.request_attachment;
    call.reply_attachment_bytes = row.reply_attachment;
    call.channel = row.channel;
    scenario.channels.resize(
        std::max(scenario.channels.size(), row.channel + 1));
  }
  return scenario;
}

// A reply with its attachment in bulk memory waits for more of that memory. In
// front of it waits a request, which needs the memory that such replies hold.
TEST(SimulatedTest, RepliesThatWaitForMemoryHoldNone) {
  // These calls were found by a seed. Each of them is necessary.
  constexpr Row kCalls[] = {
      {100000, 142693, kNever, 4007, 11532, 0, 219843},
      {92589, 424, 2009, 8065, 0, 8305, 0},
      {95915, 123496, 97, 8345, 269, 0, 0},
      {100000, 213, kNever, 36, 0, 8024, 0},
      {21754, 75372, kNever, 15867, 128, 81507, 0},
      {50000, 19973, 443, 249, 130, 8251, 0},
      {50000, 905, kNever, 256909, 0, 12493, 0},
      {0, 155785, kNever, 240832, 0, 0, 134168},
      {100000, 156522, kNever, 94145, 0, 0, 8229},
      {13206, 119587, 1117, 274094, 8912, 0, 0},
      {100000, 64573, kNever, 298056, 0, 0, 0},
      {50000, 54675, kNever, 96355, 0, 0, 0},
  };
  transport::FaultPlan no_faults;
  RunScenario(ScenarioOf(kCalls, uint64_t{3} << 20), no_faults);
}

// A request came with its attachment in the frame, which was put into bulk
// memory. In front of it waits a request that needs the range in which that
// attachment lies.
TEST(SimulatedTest, RequestsThatWaitForMemoryHoldNone) {
  constexpr Row kCalls[] = {
      {0, 134452, kNever, 12, 145794, 0, 0, 1},
      {0, 140077, kNever, 27916, 8014, 0, 0},
      {0, 155622, kNever, 530000, 279, 510000, 0},
      {0, 167621, kNever, 95103, 0, 8033, 0},
  };
  transport::FaultPlan no_faults;
  EXPECT_THAT(RunScenario(ScenarioOf(kCalls, uint64_t{4} << 20), no_faults),
              testing::Not(testing::HasSubstr("EXCEEDED")));
}

// Both together fill the memory, but do not fit if each length is rounded up.
TEST(SimulatedTest, AMessageAndAnAttachmentThatFillTheBulkMemoryGetIt) {
  constexpr Row kCalls[] = {{0, 100000, kNever, 530000, 100, 510000, 0}};
  transport::FaultPlan no_faults;
  EXPECT_THAT(RunScenario(ScenarioOf(kCalls, kArenaBytesMin), no_faults),
              testing::HasSubstr("OK"));
}

// The call ends with UNAVAILABLE, not with a status that blames the options of
// the client.
TEST(SimulatedTest, AServerThatClosesAsSoonAsItHasAcceptedIsUnavailable) {
  Scenario scenario;
  scenario.fault_seed = 1;
  scenario.calls.emplace_back().timeout = absl::Seconds(1);
  transport::FaultPlan plan;
  plan.FailCall("modify_qp", 1, EAGAIN);
  EXPECT_THAT(RunScenario(scenario, plan), testing::HasSubstr("UNAVAILABLE"));
}

}  // namespace
}  // namespace verbena::simulation

int main(int argc, char** argv) {
  return verbena::simulation::RunSeedTests(
      argc, argv, {.run = verbena::simulation::RunSeed});
}
