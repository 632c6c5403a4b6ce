// Scenario, the events of one run of the simulation, drawn from a seed.

#ifndef VERBENA_TESTS_SIMULATION_SCENARIO_H_
#define VERBENA_TESTS_SIMULATION_SCENARIO_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "transport/faulty/fault_plan.h"

namespace verbena::simulation {

// The smallest limits that allow messages of the size that runs allow.
inline constexpr uint64_t kArenaBytesMin = uint64_t{2} << 20;
inline constexpr uint64_t kBulkBytesMin = uint64_t{1} << 20;

// Options of one channel.
struct ChannelPlan {
  bool checksum = false;
  bool revoke_leases = false;
};

// A call: when it starts, how many bytes it carries, and when its caller gives
// it up.
struct CallPlan {
  size_t channel = 0;
  absl::Duration start;  // From the begin of the run, like the others.
  absl::Duration timeout;
  absl::Duration cancel = absl::InfiniteDuration();  // From its start.
  bool wait_for_ready = false;
  uint64_t request_bytes = 0;
  uint64_t reply_bytes = 0;  // 0: an echo.
  uint64_t request_attachment_bytes = 0;
  uint64_t reply_attachment_bytes = 0;
};

// A disturbance: all links are cut or stalled, the server restarts, or one
// channel is dropped.
struct Trouble {
  enum class Kind { kCut, kStall, kRestart, kDropChannel };
  Kind kind = Kind::kCut;
  absl::Duration start;
  absl::Duration length;
  size_t channel = 0;  // For kDropChannel only.
};

// A value type. Scenarios of one seed are equal.
struct Scenario {
  // Makes a scenario without calls.
  Scenario() = default;
  explicit Scenario(uint64_t seed);

  // Has the device of the server fail as drawn.
  void AddFaults(transport::FaultPlan* plan) const;
  // Whether all calls with enough time are to succeed.
  bool harmless() const { return troubles.empty() && fault_seed == 0; }

  std::vector<ChannelPlan> channels = {ChannelPlan()};
  bool checksum = false;  // Whether the server asks every channel for it.
  uint64_t arena_bytes = kArenaBytesMin;  // The most a channel registers.
  uint64_t bulk_bytes = kBulkBytesMin;    // The most the server registers.
  std::vector<CallPlan> calls;
  std::vector<Trouble> troubles;
  uint64_t fault_seed = 0;  // 0: the device does not fail.
};

}  // namespace verbena::simulation

#endif  // VERBENA_TESTS_SIMULATION_SCENARIO_H_
