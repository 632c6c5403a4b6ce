// FleetRegistry, which tells the channels of a run what servers there are.

#ifndef VERBENA_TESTS_SIMULATION_FLEET_REGISTRY_H_
#define VERBENA_TESTS_SIMULATION_FLEET_REGISTRY_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/resolver.h"
#include "tests/simulation/fleet_scenario.h"
#include "tests/simulation/world.h"

namespace verbena::simulation {

// Gives each channel the answers of its plan. A channel's target is
// TargetOf().
class FleetRegistry final : public ResolverFactory {
 public:
  // `on_told` hears of each answer that a channel gets, before the channel
  // does. All must outlive it.
  FleetRegistry(World* world, const std::vector<FleetChannelPlan>* channels,
                std::function<void(size_t channel, const AnswerPlan&)> on_told)
      : world_(*world),
        channels_(*channels),
        on_told_(std::move(on_told)),
        states_(channels->size()) {}

  static std::string TargetOf(size_t channel);
  // The answer holds from now on.
  void Answer(size_t channel, const AnswerPlan* answer);

  // As ResolverFactory.
  absl::string_view scheme() const override { return "fleet"; }
  absl::StatusOr<std::unique_ptr<Resolver>> Create(
      const Target& target, Resolver::OnResult on_result) override;

 private:
  class Follower;
  // The state of a channel.
  struct State {
    int made = 0;                      // Resolvers, and refusals.
    const AnswerPlan* last = nullptr;  // Null before the first answer.
    Resolver::OnResult on_result;      // Null unless there is a resolver.
    bool asked = false;                // ResolveNow() is being answered.
  };

  // Gives the channel its last answer, if it listens.
  void Tell(size_t channel);
  void ResolveNow(size_t channel);

  World& world_;
  const std::vector<FleetChannelPlan>& channels_;
  const std::function<void(size_t channel, const AnswerPlan&)> on_told_;
  std::vector<State> states_;
};

}  // namespace verbena::simulation

#endif  // VERBENA_TESTS_SIMULATION_FLEET_REGISTRY_H_
