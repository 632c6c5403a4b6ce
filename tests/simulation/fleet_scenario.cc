#include "tests/simulation/fleet_scenario.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "tests/simulation/draw.h"

namespace verbena::simulation {
namespace {

// Where calls, troubles and answers fall.
constexpr absl::Duration kRunTime = absl::Milliseconds(300);
// Handlers in a harmless scenario take less.
constexpr absl::Duration kShortWork = absl::Milliseconds(10);
constexpr absl::Duration kLongWork = absl::Milliseconds(40);
// Calls of a harmless scenario have at least this time.
constexpr absl::Duration kAmple = absl::Seconds(3);
// In a harmless scenario, the least time between the end of one trouble and
// the begin of the next.
constexpr absl::Duration kSettle = absl::Milliseconds(30);
// The servers that a steady channel has at least.
constexpr size_t kSteady = 3;

size_t DrawServers(Draw& draw) {
  if (draw.OneIn(60)) return 200;
  if (draw.OneIn(6)) return 20 + draw.Number(21);
  return 3 + draw.Number(10);
}

AttemptsPlan DrawAttempts(Draw& draw, const FleetScenario& scenario) {
  using Kind = AttemptsPlan::Kind;
  AttemptsPlan attempts;
  attempts.kind = draw.OneIn(3)   ? Kind::kOnce
                  : draw.OneIn(2) ? Kind::kRetry
                                  : Kind::kHedge;
  if (scenario.all_retry) attempts.kind = Kind::kRetry;
  if (attempts.kind == Kind::kOnce) return attempts;
  attempts.most = 2 + static_cast<int>(draw.Number(4));
  // A second server may die under the second attempt.
  if (scenario.all_retry) attempts.most = std::max(attempts.most, 3);
  // A burst of hedges at once is allowed, too. A backoff of zero is not.
  attempts.pause =
      draw.OneIn(4) && attempts.kind == Kind::kHedge
          ? absl::ZeroDuration()
          : absl::Microseconds(200) + draw.Time(absl::Milliseconds(8));
  // Where servers die, such an attempt could be missing in the end.
  if (attempts.kind == Kind::kRetry && !scenario.all_retry && draw.OneIn(3)) {
    attempts.timeout = kShortWork / 10 + draw.Time(kShortWork);
  }
  attempts.throttled = !scenario.harmless && draw.OneIn(4);
  return attempts;
}

class Drawer {
 public:
  Drawer(uint64_t seed, FleetScenario* scenario)
      : draw_(seed), scenario_(*scenario) {}

  void DrawAll();

 private:
  // Draws the servers of an answer.
  std::vector<ListedServer> DrawList(size_t least);
  AnswerPlan DrawAnswer(const FleetChannelPlan& channel, bool must_be_good);
  FleetChannelPlan DrawChannel();
  FleetCallPlan DrawCall();
  // Something happens to one server after the other.
  void DrawHarmlessTroubles();
  ServerTrouble DrawTrouble();

  Draw draw_;
  FleetScenario& scenario_;
};

std::vector<ListedServer> Drawer::DrawList(size_t least) {
  std::vector<size_t> order(scenario_.servers);
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), draw_.random());
  least = std::min(least, order.size());
  // Mostly all, or nearly all.
  size_t count = order.size();
  if (draw_.OneIn(2)) count -= std::min(draw_.Number(3), count - least);
  if (draw_.OneIn(4)) count = least + draw_.Number(count - least + 1);
  order.resize(count);
  if (draw_.OneIn(4)) order.push_back(order[draw_.Number(count)]);
  std::vector<ListedServer> list;
  const bool weighted = draw_.OneIn(2);
  for (const size_t server : order) {
    list.push_back(
        {.server = server,
         .weight = weighted ? static_cast<uint32_t>(draw_.Number(5)) : 1});
  }
  return list;
}

AnswerPlan Drawer::DrawAnswer(const FleetChannelPlan& channel,
                              bool must_be_good) {
  using Kind = AnswerPlan::Kind;
  AnswerPlan answer;
  answer.start = draw_.Time(kRunTime);
  answer.policy = channel.policy;
  if (draw_.OneIn(6)) {
    // A steady channel always spreads its calls.
    answer.policy =
        kPolicies[channel.steady ? 1 + draw_.Number(4) : draw_.Number(5)];
  }
  answer.by_options = draw_.OneIn(5);
  if (!must_be_good && draw_.OneIn(3)) {
    constexpr Kind kBad[] = {Kind::kWrongConfig, Kind::kEmpty,
                             Kind::kUnavailable, Kind::kInvalid};
    answer.kind = kBad[draw_.Number(scenario_.harmless ? 3 : 4)];
  }
  if (!answer.has_servers()) return answer;
  answer.servers = DrawList(channel.steady       ? kSteady
                            : scenario_.harmless ? 2
                                                 : 1);
  // Useless ones could be all that a subset has.
  if (!channel.steady && channel.max_servers == 0 && draw_.OneIn(4)) {
    answer.useless = 1 + static_cast<int>(draw_.Number(3));
  }
  return answer;
}

FleetChannelPlan Drawer::DrawChannel() {
  FleetChannelPlan channel;
  channel.steady =
      scenario_.harmless && scenario_.servers > kSteady && draw_.OneIn(2);
  channel.policy =
      kPolicies[channel.steady ? 1 + draw_.Number(4) : draw_.Number(5)];
  channel.attempts = DrawAttempts(draw_, scenario_);
  if (draw_.OneIn(3)) {
    const size_t least = channel.steady ? kSteady : 1;
    channel.max_servers =
        static_cast<int>(least + draw_.Number(scenario_.servers));
  } else if (scenario_.servers > 20 && !draw_.OneIn(8)) {
    channel.max_servers = 20;
  }
  if (!channel.steady && draw_.OneIn(5)) {
    channel.refusals = 1 + static_cast<int>(draw_.Number(3));
  }
  channel.answers.push_back(DrawAnswer(channel, channel.steady));
  if (draw_.OneIn(2)) channel.answers.back().start = absl::ZeroDuration();
  for (uint64_t i = 0, count = draw_.Number(7); i < count; ++i) {
    channel.answers.push_back(DrawAnswer(channel, /*must_be_good=*/false));
  }
  std::stable_sort(
      channel.answers.begin() + (channel.steady ? 1 : 0), channel.answers.end(),
      [](const auto& a, const auto& b) { return a.start < b.start; });
  if (channel.steady) channel.answers.front().start = absl::ZeroDuration();
  channel.answers.push_back(DrawAnswer(channel, /*must_be_good=*/true));
  channel.answers.back().start = kRunTime;
  if (!scenario_.harmless && draw_.OneIn(12)) {
    channel.drop = draw_.Time(kRunTime);
  }
  return channel;
}

FleetCallPlan Drawer::DrawCall() {
  const bool harmless = scenario_.harmless;
  FleetCallPlan call;
  call.channel = draw_.Number(scenario_.channels.size());
  const FleetChannelPlan& channel = scenario_.channels[call.channel];
  // Bursts, because calls that come one by one never wait for anything.
  call.start = draw_.OneIn(2)
                   ? draw_.Time(kRunTime)
                   : absl::Trunc(draw_.Time(kRunTime), absl::Milliseconds(50));
  call.timeout = harmless ? kAmple + draw_.Time(kRunTime)
                 : draw_.OneIn(4)
                     ? draw_.Time(absl::Milliseconds(2))
                     : absl::Milliseconds(1) + draw_.Time(kRunTime);
  if (draw_.OneIn(8)) call.cancel = draw_.Time(absl::Milliseconds(20));
  call.wait_for_ready = (harmless && !channel.steady) || draw_.OneIn(2);
  call.bytes = draw_.OneIn(8) ? draw_.Number(20'000) : draw_.Number(300);
  call.key = absl::StrCat(draw_.Number(12));
  if (draw_.OneIn(2)) call.work = draw_.Time(kShortWork);
  call.heeds_cancel = draw_.OneIn(2);
  if (harmless) return call;
  if (draw_.OneIn(8)) call.work = draw_.Time(kLongWork);
  if (draw_.OneIn(4)) call.failures = 1 + static_cast<int>(draw_.Number(5));
  if (draw_.OneIn(8)) call.code = absl::StatusCode::kNotFound;
  if (draw_.OneIn(6)) call.pushback_ms = -1 + static_cast<int>(draw_.Number(9));
  return call;
}

void Drawer::DrawHarmlessTroubles() {
  using Kind = ServerTrouble::Kind;
  absl::Duration time = draw_.Time(kRunTime / 4);
  for (uint64_t i = 0, count = draw_.Number(6); i < count && time < kRunTime;
       ++i) {
    ServerTrouble& trouble = scenario_.troubles.emplace_back();
    trouble.kind = draw_.OneIn(2)        ? Kind::kDrain
                   : draw_.OneIn(3)      ? Kind::kHang
                   : draw_.OneIn(2)      ? Kind::kStall
                   : scenario_.all_retry ? Kind::kDie
                                         : Kind::kDrain;
    trouble.server = draw_.Number(scenario_.servers);
    trouble.start = time;
    trouble.length = kDrainTime + draw_.Time(kDrainTime);
    time += trouble.length + kSettle + draw_.Time(kSettle);
  }
}

ServerTrouble Drawer::DrawTrouble() {
  using Kind = ServerTrouble::Kind;
  constexpr Kind kKinds[] = {Kind::kDrain, Kind::kDrain, Kind::kDie, Kind::kDie,
                             Kind::kStall, Kind::kSick,  Kind::kHang};
  ServerTrouble trouble;
  trouble.kind = draw_.OneIn(40) ? Kind::kCut : kKinds[draw_.Number(7)];
  trouble.server = draw_.Number(scenario_.servers);
  trouble.start = draw_.OneIn(3)
                      ? absl::Trunc(draw_.Time(kRunTime), kRunTime / 4)
                      : draw_.Time(kRunTime);
  trouble.length = draw_.Time(kRunTime);
  return trouble;
}

void Drawer::DrawAll() {
  scenario_.harmless = draw_.OneIn(3);
  scenario_.all_retry = scenario_.harmless && draw_.OneIn(3);
  scenario_.servers = DrawServers(draw_);
  // Many channels show how subsets spread.
  const uint64_t channels = scenario_.servers >= 200 ? 2
                            : draw_.OneIn(20)        ? 12
                                                     : 1 + draw_.Number(4);
  for (uint64_t i = 0; i < channels; ++i) {
    scenario_.channels.push_back(DrawChannel());
  }
  for (uint64_t i = 0, count = 1 + draw_.Number(150); i < count; ++i) {
    scenario_.calls.push_back(DrawCall());
  }
  if (scenario_.harmless) return DrawHarmlessTroubles();
  const uint64_t most = draw_.OneIn(4) ? 2 * scenario_.servers : 8;
  for (uint64_t i = 0, count = draw_.Number(most); i < count; ++i) {
    scenario_.troubles.push_back(DrawTrouble());
  }
}

std::string JsonTime(absl::Duration time) {
  return absl::StrCat(absl::ToDoubleSeconds(time), "s");
}

// The member "retryPolicy" or "hedgingPolicy" of a method's config.
std::string AttemptsConfig(const AttemptsPlan& attempts) {
  switch (attempts.kind) {
    case AttemptsPlan::Kind::kOnce:
      return "";
    case AttemptsPlan::Kind::kRetry:
      return absl::StrCat(R"(, "retryPolicy": {"maxAttempts": )", attempts.most,
                          R"(, "initialBackoff": ")", JsonTime(attempts.pause),
                          attempts.timeout > absl::ZeroDuration()
                              ? absl::StrCat(R"(", "perAttemptRecvTimeout": ")",
                                             JsonTime(attempts.timeout))
                              : "",
                          R"(", "maxBackoff": "0.02s", "backoffMultiplier": 2,
                             "retryableStatusCodes": ["UNAVAILABLE"]})");
    case AttemptsPlan::Kind::kHedge:
      return absl::StrCat(R"(, "hedgingPolicy": {"maxAttempts": )",
                          attempts.most, R"(, "hedgingDelay": ")",
                          JsonTime(attempts.pause),
                          R"(", "nonFatalStatusCodes": ["UNAVAILABLE"]})");
  }
  return "";
}

}  // namespace

FleetScenario::FleetScenario(uint64_t seed) { Drawer(seed, this).DrawAll(); }

std::string PolicyName(Policy policy) {
  switch (policy) {
    case Policy::kPickFirst:
      return "pick_first";
    case Policy::kRoundRobin:
      return "round_robin";
    case Policy::kWeightedRoundRobin:
      return "weighted_round_robin";
    case Policy::kLeastRequest:
      return "least_request";
    case Policy::kRingHash:
      return "ring_hash";
  }
  return "";
}

std::string ServiceConfigOf(Policy policy, const AttemptsPlan& attempts) {
  const std::string options =
      policy == Policy::kRingHash
          ? absl::StrCat(R"("requestHashHeader": ")", kHashKey, R"(")")
          : "";
  return absl::StrCat(
      R"({"loadBalancingConfig": [{")", PolicyName(policy), R"(": {)", options,
      R"(}}], "methodConfig": [{"name": [{}])", AttemptsConfig(attempts), "}]",
      attempts.throttled
          ? R"(, "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.5})"
          : "",
      "}");
}

}  // namespace verbena::simulation
