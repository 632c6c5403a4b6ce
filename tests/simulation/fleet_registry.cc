#include "tests/simulation/fleet_registry.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/simulation/fleet_names.h"
#include "transport/base/check.h"

namespace verbena::simulation {
namespace {

// The time that a look takes.
constexpr absl::Duration kLookTime = absl::Milliseconds(3);

absl::StatusOr<Resolved> ResolvedOf(const AnswerPlan& answer,
                                    const AttemptsPlan& attempts) {
  switch (answer.kind) {
    case AnswerPlan::Kind::kUnavailable:
      return absl::InternalError("the registry is away");
    case AnswerPlan::Kind::kInvalid:
      return absl::InvalidArgumentError("no such service");
    case AnswerPlan::Kind::kServers:
    case AnswerPlan::Kind::kWrongConfig:
    case AnswerPlan::Kind::kEmpty:
      break;
  }
  Resolved resolved;
  for (const ListedServer& listed : answer.servers) {
    resolved.servers.push_back(
        {.address = ServerName(listed.server), .weight = listed.weight});
  }
  for (int i = 0; i < answer.useless; ++i) {
    resolved.servers.insert(resolved.servers.begin() + i,
                            {.address = UselessName(i)});
  }
  if (answer.kind == AnswerPlan::Kind::kWrongConfig) {
    resolved.service_config = R"({"loadBalancingConfig": "round_robin"})";
  } else if (!answer.by_options) {
    resolved.service_config = ServiceConfigOf(answer.policy, attempts);
  }
  return resolved;
}

}  // namespace

class FleetRegistry::Follower final : public Resolver {
 public:
  Follower(FleetRegistry* registry, size_t channel)
      : registry_(*registry), channel_(channel) {}
  ~Follower() override { registry_.states_[channel_].on_result = nullptr; }

  void ResolveNow() override { registry_.ResolveNow(channel_); }

 private:
  FleetRegistry& registry_;
  const size_t channel_;
};

std::string FleetRegistry::TargetOf(size_t channel) {
  return absl::StrCat("fleet:///", channel);
}

void FleetRegistry::Answer(size_t channel, const AnswerPlan* answer) {
  states_[channel].last = answer;
  Tell(channel);
}

void FleetRegistry::Tell(size_t channel) {
  State& state = states_[channel];
  if (state.last == nullptr || !state.on_result) return;
  on_told_(channel, *state.last);
  state.on_result(ResolvedOf(*state.last, channels_[channel].attempts));
}

// As often as somebody asks, but not more often than a look takes.
void FleetRegistry::ResolveNow(size_t channel) {
  if (std::exchange(states_[channel].asked, true)) return;
  world_.At(world_.Now() + kLookTime, [this, channel] {
    states_[channel].asked = false;
    Tell(channel);
  });
}

absl::StatusOr<std::unique_ptr<Resolver>> FleetRegistry::Create(
    const Target& target, Resolver::OnResult on_result) {
  size_t channel = 0;
  CHECK(absl::SimpleAtoi(target.path, &channel));
  State& state = states_[channel];
  if (state.made++ < channels_[channel].refusals) {
    return absl::UnavailableError("no resolver yet");
  }
  state.on_result = std::move(on_result);
  // Inside of this, if there is an answer.
  Tell(channel);
  return std::make_unique<Follower>(this, channel);
}

}  // namespace verbena::simulation
