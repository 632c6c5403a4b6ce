// FleetClient, a channel to the fleet, and what it was told of the servers.

#ifndef VERBENA_TESTS_SIMULATION_FLEET_CLIENT_H_
#define VERBENA_TESTS_SIMULATION_FLEET_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "rpc/resolver.h"
#include "rpc/rpc.h"
#include "tests/simulation/fleet_balancers.h"
#include "tests/simulation/fleet_scenario.h"
#include "tests/simulation/world.h"

namespace verbena::simulation {

// The current test fails if the channel's servers are not those that the last
// good answer has, or if another answer changes more of a subset than it must.
class FleetClient {
 public:
  // All must outlive it.
  FleetClient(World* world, const FleetScenario* scenario, size_t index);
  FleetClient(const FleetClient&) = delete;
  FleetClient& operator=(const FleetClient&) = delete;

  void Connect(std::shared_ptr<ResolverFactory> resolvers);
  // Calls `dropped` when the channel is gone. Does nothing if it was dropped
  // before.
  void Drop(std::function<void()> dropped);
  // Null after Drop().
  const std::shared_ptr<Channel>& channel() const { return channel_; }
  const FleetChannelPlan& plan() const { return plan_; }

  // The channel is about to get the answer.
  void OnTold(const AnswerPlan& answer);
  // Whether a call that started at `start` may run on `server`: the channel was
  // not told before that the server is gone.
  bool MayRun(size_t server, absl::Time start) const;

  // --- When there are no troubles any more ---

  // Connects it. Whether it is ready, and connected to all of its servers.
  bool Ready();
  // Its state and that of its servers, for people.
  std::string Describe() const;
  // The policy in use.
  Policy policy() const { return policy_; }
  // The servers to which the channel connects, by their names, and their
  // weights. With pick_first all of the answer, of which the channel takes one.
  std::map<size_t, uint32_t> servers() const;
  // All servers of the last good answer.
  const std::set<size_t>& listed() const { return listed_; }
  // The next call is the first one, and no other is open.
  void ExpectIdle() { watch_.expects_idle = policy_ != Policy::kPickFirst; }

 private:
  // Looks at the channel's servers, unless another answer has come since the
  // one with that number.
  void Check(int told);
  // The addresses that the channel has.
  std::set<std::string> Addresses() const;

  World& world_;
  const FleetChannelPlan& plan_;
  const std::string target_;
  BalancerWatch watch_;
  std::shared_ptr<Channel> channel_;
  int told_ = 0;                        // Good answers so far.
  const AnswerPlan* answer_ = nullptr;  // The last good one.
  Policy policy_;
  std::set<size_t> listed_;
  // By server: since when it is not listed; the infinite future if it is.
  std::vector<absl::Time> removed_;
  // At the last Check(): the addresses of the channel, and of the answer, if
  // the policy was not pick_first.
  std::set<std::string> subset_;
  std::set<std::string> subset_of_;
};

}  // namespace verbena::simulation

#endif  // VERBENA_TESTS_SIMULATION_FLEET_CLIENT_H_
