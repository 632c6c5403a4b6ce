// The library's balancers, watched: a channel that has these factories takes
// them in the place of its own.

#ifndef VERBENA_TESTS_SIMULATION_FLEET_BALANCERS_H_
#define VERBENA_TESTS_SIMULATION_FLEET_BALANCERS_H_

#include <memory>
#include <vector>

#include "rpc/balancer.h"

namespace verbena::simulation {

// Questions to the balancers of a channel. Outlives them.
struct BalancerWatch {
  // No call is open: the next Pick() expects that of each server.
  bool expects_idle = false;
};

// Returns a factory for each policy but pick_first. Each balancer is that of
// the library. The current test fails if a channel breaks the contract of
// Balancer, or if the balancer does.
std::vector<std::shared_ptr<BalancerFactory>> WatchedBalancers(
    BalancerWatch* watch);

}  // namespace verbena::simulation

#endif  // VERBENA_TESTS_SIMULATION_FLEET_BALANCERS_H_
