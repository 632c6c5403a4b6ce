// FleetScenario, the events of one run of channels to a service of many
// servers, drawn from a seed.

#ifndef VERBENA_TESTS_SIMULATION_FLEET_SCENARIO_H_
#define VERBENA_TESTS_SIMULATION_FLEET_SCENARIO_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace verbena::simulation {

// The policies of balancing.
enum class Policy {
  kPickFirst,
  kRoundRobin,
  kWeightedRoundRobin,
  kLeastRequest,
  kRingHash,
};
inline constexpr Policy kPolicies[] = {
    Policy::kPickFirst, Policy::kRoundRobin, Policy::kWeightedRoundRobin,
    Policy::kLeastRequest, Policy::kRingHash};
// The name in a service config.
std::string PolicyName(Policy policy);
// The key of the metadata that ring_hash hashes.
inline constexpr char kHashKey[] = "user";

// How often the calls of a channel may be attempted.
struct AttemptsPlan {
  enum class Kind { kOnce, kRetry, kHedge };
  Kind kind = Kind::kOnce;
  int most = 1;          // Attempts.
  absl::Duration pause;  // The first backoff, or the delay between two hedges.
  // For so long an attempt that may be followed by another waits for an
  // answer; 0: as long as the call.
  absl::Duration timeout;
  bool throttled = false;
};

// A server in the answer of a resolver.
struct ListedServer {
  size_t server = 0;
  uint32_t weight = 1;
};

// An answer of a channel's resolver.
struct AnswerPlan {
  enum class Kind {
    kServers,
    kWrongConfig,  // Servers, beside a service config that can't be read.
    kEmpty,
    kUnavailable,
    kInvalid,
  };
  bool has_servers() const {
    return kind == Kind::kServers || kind == Kind::kWrongConfig;
  }

  Kind kind = Kind::kServers;
  absl::Duration start;  // From the begin of the run, like the others.
  Policy policy = Policy::kRoundRobin;
  bool by_options = false;  // The config of the channel's options holds.
  // Servers may occur twice.
  std::vector<ListedServer> servers;
  // Addresses beside them that lead nowhere.
  int useless = 0;
};

struct FleetChannelPlan {
  Policy policy = Policy::kRoundRobin;  // By the options.
  AttemptsPlan attempts;
  int max_servers = 0;
  // Times that the resolver can't be made.
  int refusals = 0;
  // By their times. The last one is good, and after all troubles.
  std::vector<AnswerPlan> answers;
  // When the channel is dropped.
  absl::Duration drop = absl::InfiniteDuration();
  // Whether calls that do not wait succeed in a harmless scenario: several
  // servers are connected at any time.
  bool steady = false;
};

// A call, and what its handlers do.
struct FleetCallPlan {
  size_t channel = 0;
  absl::Duration start;
  absl::Duration timeout;
  absl::Duration cancel = absl::InfiniteDuration();  // From its start.
  bool wait_for_ready = false;
  uint64_t bytes = 0;  // In the request, and in the reply.
  std::string key;     // For ring_hash.
  absl::Duration work;
  // Handlers that end with UNAVAILABLE before one ends with `code`.
  int failures = 0;
  absl::StatusCode code = absl::StatusCode::kOk;
  // With these failures a server says how long to pause; negative: for ever.
  // 0: it says nothing.
  int pushback_ms = 0;
  // Handlers end when they hear of the call's cancellation.
  bool heeds_cancel = true;
};

// A disturbance of a server.
struct ServerTrouble {
  enum class Kind {
    kDrain,  // Shuts down, and its open calls end first.
    kDie,    // Shuts down at once.
    kStall,  // The process stands still.
    kSick,   // Answers all calls with UNAVAILABLE.
    kHang,   // Answers no call.
    kCut,    // All links of all servers are cut.
  };
  Kind kind = Kind::kDrain;
  size_t server = 0;
  absl::Duration start;
  absl::Duration length;  // Until it is as it was.
};

// A value type. Scenarios of one seed are equal.
struct FleetScenario {
  explicit FleetScenario(uint64_t seed);

  // All calls succeed: servers drain, stall or hang one after the other, and
  // their registry may err, but always lists some that stay. If all channels
  // try calls again often enough, servers may also die.
  bool harmless = false;
  bool all_retry = false;
  size_t servers = 0;
  std::vector<FleetChannelPlan> channels;
  std::vector<FleetCallPlan> calls;
  std::vector<ServerTrouble> troubles;
};

// Time for which a server that drains waits for its calls. Handlers take less
// in a harmless scenario.
inline constexpr absl::Duration kDrainTime = absl::Milliseconds(30);

// Returns the service config of a channel: all policies that scenarios draw
// stand here.
std::string ServiceConfigOf(Policy policy, const AttemptsPlan& attempts);

}  // namespace verbena::simulation

#endif  // VERBENA_TESTS_SIMULATION_FLEET_SCENARIO_H_
