#include "tests/simulation/fleet_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/channel_state.h"
#include "rpc/metrics.h"
#include "tests/simulation/drop_channel.h"
#include "tests/simulation/fleet_names.h"
#include "tests/simulation/fleet_registry.h"
#include "tests/simulation/options.h"

namespace verbena::simulation {
namespace {

// The time in which a channel takes an answer, and in which a call that it has
// given to a server gets there.
constexpr absl::Duration kTakes = absl::Milliseconds(1);

ChannelOptions OptionsOf(const FleetChannelPlan& plan, BalancerWatch* watch) {
  auto options = CommonOptions<ChannelOptions>();
  options.max_arena_bytes = uint64_t{2} << 20;
  options.connect_timeout = kKeepalive;
  options.initial_backoff = absl::Milliseconds(5);
  options.max_backoff = absl::Milliseconds(40);
  options.max_servers = plan.max_servers;
  options.service_config = ServiceConfigOf(plan.policy, plan.attempts);
  options.balancers = WatchedBalancers(watch);
  return options;
}

std::set<std::string> AddressesOf(const AnswerPlan& answer) {
  std::set<std::string> addresses;
  for (const ListedServer& listed : answer.servers) {
    addresses.insert(ServerName(listed.server));
  }
  for (int i = 0; i < answer.useless; ++i) addresses.insert(UselessName(i));
  return addresses;
}

std::set<std::string> Without(const std::set<std::string>& all,
                              const std::set<std::string>& others) {
  std::set<std::string> rest;
  std::set_difference(all.begin(), all.end(), others.begin(), others.end(),
                      std::inserter(rest, rest.end()));
  return rest;
}

}  // namespace

FleetClient::FleetClient(World* world, const FleetScenario* scenario,
                         size_t index)
    : world_(*world),
      plan_(scenario->channels[index]),
      target_(FleetRegistry::TargetOf(index)),
      policy_(plan_.policy),
      removed_(scenario->servers, absl::InfinitePast()) {}

void FleetClient::Connect(std::shared_ptr<ResolverFactory> resolvers) {
  ChannelOptions options = OptionsOf(plan_, &watch_);
  options.resolvers.push_back(std::move(resolvers));
  channel_ = CreateChannel(target_, options);
}

void FleetClient::Drop(std::function<void()> dropped) {
  if (channel_ == nullptr) return;
  DropInCallback(std::exchange(channel_, nullptr), std::move(dropped));
}

// A wrong config is of no use if there was no good one before.
void FleetClient::OnTold(const AnswerPlan& answer) {
  const bool config = answer.kind != AnswerPlan::Kind::kWrongConfig;
  if (!answer.has_servers() || (!config && answer_ == nullptr)) return;
  if (config) policy_ = answer.by_options ? plan_.policy : answer.policy;
  answer_ = &answer;
  std::set<size_t> listed;
  for (const ListedServer& each : answer.servers) listed.insert(each.server);
  for (const size_t server : listed_) {
    if (!listed.contains(server)) removed_[server] = world_.Now();
  }
  for (const size_t server : listed) removed_[server] = absl::InfiniteFuture();
  listed_ = std::move(listed);
  world_.At(world_.Now() + kTakes, [this, told = ++told_] { Check(told); });
}

bool FleetClient::MayRun(size_t server, absl::Time start) const {
  return start <= removed_[server] + kTakes;
}

std::set<std::string> FleetClient::Addresses() const {
  std::set<std::string> addresses;
  for (const ChannelServerMetrics& server : channel_->GetMetrics().servers) {
    EXPECT_TRUE(addresses.insert(server.address).second) << server.address;
  }
  return addresses;
}

// In a subset only as many places may go to servers that were there before as
// have lost theirs.
void FleetClient::Check(int told) {
  if (told != told_ || channel_ == nullptr) return;
  const std::set<std::string> addresses = Addresses();
  if (policy_ == Policy::kPickFirst) {
    EXPECT_THAT(addresses, testing::ElementsAre(target_));
    subset_.clear();
    return;
  }
  const std::set<std::string> all = AddressesOf(*answer_);
  EXPECT_THAT(all, testing::IsSupersetOf(addresses));
  const auto most = static_cast<size_t>(plan_.max_servers);
  EXPECT_EQ(addresses.size(),
            most == 0 ? all.size() : std::min(most, all.size()));
  if (!subset_.empty()) {
    const size_t came =
        Without(Without(addresses, subset_), Without(all, subset_of_)).size();
    std::set<std::string> left;
    for (const std::string& address : Without(subset_of_, all)) {
      if (subset_.contains(address)) left.insert(address);
    }
    EXPECT_LE(came, left.size()) << "a subset has changed without need";
  }
  subset_ = addresses;
  subset_of_ = all;
}

bool FleetClient::Ready() {
  if (channel_->state(/*try_to_connect=*/true) != ChannelState::kReady) {
    return false;
  }
  std::set<std::string> useless;
  for (int i = 0; i < answer_->useless; ++i) useless.insert(UselessName(i));
  const ChannelMetrics metrics = channel_->GetMetrics();
  return std::all_of(
      metrics.servers.begin(), metrics.servers.end(), [&](const auto& server) {
        return server.connected || useless.contains(server.address);
      });
}

std::string FleetClient::Describe() const {
  std::string text = absl::StrCat(
      target_, " with ", PolicyName(policy_), " is ",
      ChannelStateName(channel_->state(/*try_to_connect=*/false)), "\n");
  for (const ChannelServerMetrics& server : channel_->GetMetrics().servers) {
    absl::StrAppend(&text, "  ", server.address, " is ",
                    ChannelStateName(server.state), " ", server.error, "\n");
  }
  return text;
}

std::map<size_t, uint32_t> FleetClient::servers() const {
  const bool one = policy_ == Policy::kPickFirst;
  const std::set<std::string> addresses =
      one ? AddressesOf(*answer_) : Addresses();
  std::map<size_t, uint32_t> servers;
  for (const ListedServer& listed : answer_->servers) {
    if (!addresses.contains(ServerName(listed.server))) continue;
    // The first of several counts.
    servers.emplace(listed.server, listed.weight);
  }
  return servers;
}

}  // namespace verbena::simulation
