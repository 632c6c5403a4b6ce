// FleetRun, which executes a scenario of a fleet and checks its results.

#ifndef VERBENA_TESTS_SIMULATION_FLEET_RUN_H_
#define VERBENA_TESTS_SIMULATION_FLEET_RUN_H_

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/simulation/fleet_client.h"
#include "tests/simulation/fleet_registry.h"
#include "tests/simulation/fleet_scenario.h"
#include "tests/simulation/fleet_server.h"
#include "tests/simulation/world.h"
#include "transport/faulty/faulty_provider.h"

namespace verbena::simulation {

// Servers, channels to them and their calls. The current test fails unless:
// - each call ends once, not long after its deadline, with an expected status;
// - a call that ends well has run to its end at its server, and had its reply;
// - no call runs more often than its policy allows, nor at a server of which
//   the channel knows that it is gone;
// - attempts that nobody waits for any more are told so;
// - in a harmless scenario each call succeeds;
// - after the troubles each channel uses exactly the servers that it should;
// - in the end everything has been given back.
class FleetRun {
 public:
  // All must outlive it.
  FleetRun(World* world, const FleetScenario* scenario,
           const transport::FaultyProvider* faulty);
  FleetRun(const FleetRun&) = delete;
  FleetRun& operator=(const FleetRun&) = delete;

  // Runs from the first call to the end of the last connection.
  void Execute();

  // A line for each call that ended, and for each handler that had one. Runs of
  // one scenario have equal traces.
  const std::string& trace() const { return trace_; }

  // The share of a server among the clients of the run: how many connect to it
  // by their choice of a subset, and how many that are on average.
  struct Share {
    int clients = 0;
    double expected = 0;
    double variance = 0;
  };
  const std::map<size_t, Share>& shares() const { return shares_; }

 private:
  void Begin(const ServerTrouble& trouble);
  void End(const ServerTrouble& trouble);
  // Has everything happen that the scenario says.
  void Schedule();

  // Returns null if its channel was dropped.
  FleetCall* StartCall(const FleetCallPlan& plan);
  void OnRun(const FleetCall& call);
  void OnEnd(FleetCall* call, const absl::Status& status);
  void ExpectStatus(FleetCall* call);
  // The call has ended well.
  void ExpectReply(const FleetCall& call);
  // The handlers of a call that ended have heard of that.
  void ExpectHeard(const FleetCall& call);
  // Whether the server may not have heard of what happened in between.
  bool Deaf(size_t server, absl::Time from, absl::Time to) const;
  // Whether the server has lost no connection.
  bool KeepsConnections(size_t server) const;
  bool AllEnded() const;

  // The troubles are over.
  void ExpectCalm();
  void CallCalmly(FleetClient* client);
  void ExpectSpread(FleetClient* client,
                    const std::vector<const FleetCall*>& calls);
  void NoteShares(const FleetClient& client);
  void ExpectAllGivenBack();
  void Trace(const FleetCall& call, const std::string& text);

  World& world_;
  const FleetScenario& scenario_;
  const transport::FaultyProvider& faulty_;
  const absl::Time begin_;
  const FleetServer::Calls handled_;
  std::vector<std::unique_ptr<FleetServer>> servers_;
  std::shared_ptr<FleetRegistry> registry_;
  std::vector<std::unique_ptr<FleetClient>> clients_;
  size_t channels_left_ = 0;  // Channels that have not been destroyed yet.
  std::vector<std::unique_ptr<FleetCall>> calls_;
  std::deque<FleetCallPlan> calm_plans_;
  bool calm_ = false;
  // The server that a key leads to, for all clients of the same servers.
  std::map<std::map<size_t, uint32_t>, std::map<std::string, size_t>> rings_;
  std::map<size_t, Share> shares_;
  std::string trace_;
};

}  // namespace verbena::simulation

#endif  // VERBENA_TESTS_SIMULATION_FLEET_RUN_H_
