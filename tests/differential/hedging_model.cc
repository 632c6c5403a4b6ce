#include "tests/differential/hedging_model.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/differential/draw.h"

namespace verbena::differential {
namespace {

constexpr absl::Duration kShortDelay = absl::Milliseconds(10);
constexpr absl::Duration kLongDelay = absl::Seconds(1000);
constexpr absl::StatusCode kCodes[] = {
    absl::StatusCode::kUnavailable, absl::StatusCode::kAborted,
    absl::StatusCode::kInternal, absl::StatusCode::kNotFound};

std::string ConfigOf(const HedgingRules& rules) {
  std::vector<std::string> codes;
  for (const absl::StatusCode code : rules.non_fatal) {
    codes.push_back(absl::StrCat("\"", absl::StatusCodeToString(code), "\""));
  }
  std::string throttling;
  if (rules.max_tokens > 0) {
    throttling =
        absl::StrCat(R"(, "retryThrottling": {"maxTokens": )",
                     rules.max_tokens / 1000, R"(, "tokenRatio": )",
                     static_cast<double>(rules.token_ratio) / 1000, "}");
  }
  return absl::StrCat(
      R"({"methodConfig": [{"name": [{}], "hedgingPolicy": {"maxAttempts": )",
      rules.max_attempts, R"(, "hedgingDelay": ")",
      absl::ToDoubleSeconds(rules.delay), R"(s", "nonFatalStatusCodes": [)",
      absl::StrJoin(codes, ", "), "]}}]", throttling, "}");
}

Act DrawAct(Draw& draw, bool hangs) {
  Act act;
  if (hangs) {
    act.kind = Act::Kind::kHang;
    return act;
  }
  if (!draw.OneIn(4)) act.code = absl::StatusCode::kUnavailable;
  if (draw.OneIn(4)) act.code = draw.Of(kCodes);
  if (draw.OneIn(4)) {
    constexpr const char* kPushbacks[] = {"0", "1", "3", "-1", "soon"};
    act.pushbacks.emplace_back(draw.Of(kPushbacks));
  }
  return act;
}

// The calls of a channel, one after the other.
class Model {
 public:
  explicit Model(const HedgingRules& rules)
      : rules_(rules), tokens_(rules.max_tokens) {}

  std::string Run(const Call& call);

 private:
  // "hedged RPCs ... if token_count is greater than the threshold (maxTokens /
  // 2)".
  bool allows() const {
    return rules_.max_tokens == 0 || tokens_ > rules_.max_tokens / 2;
  }
  static std::string Result(int attempts, absl::StatusCode code, int last);

  const HedgingRules& rules_;
  int64_t tokens_;
};

std::string Model::Result(int attempts, absl::StatusCode code, int last) {
  std::string seen = "-";
  for (int i = 1; i < attempts; ++i) absl::StrAppend(&seen, ",", i);
  return absl::StrCat("attempts ", seen, "; ", absl::StatusCodeToString(code),
                      ", ", code == absl::StatusCode::kOk ? 8 : 0,
                      " bytes, initial metadata -, trailing ",
                      last < 0 ? "-" : absl::StrCat(last));
}

// An attempt answers before the next one is sent, or never.
std::string Model::Run(const Call& call) {
  const int most = std::min(rules_.max_attempts, 5);
  int hanging = 0;
  absl::Duration time;
  for (int sent = 1;; ++sent) {
    const Act& act =
        call.acts[std::min<size_t>(sent - 1, call.acts.size() - 1)];
    absl::Duration pause = rules_.delay;
    bool more = true;
    if (act.kind == Act::Kind::kHang) {
      ++hanging;
    } else if (act.code == absl::StatusCode::kOk) {
      tokens_ = std::min(tokens_ + rules_.token_ratio, rules_.max_tokens);
      return Result(sent, act.code, sent - 1);
    } else if (std::find(rules_.non_fatal.begin(), rules_.non_fatal.end(),
                         act.code) == rules_.non_fatal.end()) {
      // "If a fatal status is received, ... the RPC fails."
      return Result(sent, act.code, sent - 1);
    } else {
      tokens_ = std::max<int64_t>(tokens_ - 1000, 0);
      // "the next hedged request ... is sent immediately", unless pushed back.
      int64_t wait_ms = 0;
      if (!act.pushbacks.empty() &&
          !absl::SimpleAtoi(act.pushbacks.back(), &wait_ms)) {
        wait_ms = -1;
      }
      more = wait_ms >= 0;
      pause = absl::Milliseconds(wait_ms);
    }
    more = more && sent < most && allows();
    if (more && time + pause < call.timeout) {
      time += pause;
      continue;
    }
    if (hanging == 0 && !more) return Result(sent, act.code, sent - 1);
    return Result(sent, absl::StatusCode::kDeadlineExceeded, -1);
  }
}

}  // namespace

HedgingSchedule DrawHedging(uint64_t seed, int patience) {
  Draw draw(seed);
  HedgingSchedule hedging;
  HedgingRules& rules = hedging.rules;
  rules.max_attempts = draw.From(2, 7);
  rules.delay = draw.OneIn(3) ? patience * kShortDelay : kLongDelay;
  if (!draw.OneIn(6)) rules.non_fatal.push_back(absl::StatusCode::kUnavailable);
  if (draw.OneIn(3)) rules.non_fatal.push_back(draw.Of(kCodes));
  if (draw.OneIn(2)) {
    rules.max_tokens = draw.From(1, 8) * 1000;
    constexpr int64_t kRatios[] = {100, 200, 500, 1000, 2500};
    rules.token_ratio = draw.Of(kRatios);
  }
  Schedule& schedule = hedging.schedule;
  schedule.id = seed;
  schedule.config = ConfigOf(rules);
  // With the long delay nothing comes after an attempt that hangs.
  const uint64_t rarity = rules.delay == kLongDelay ? 60 : 8;
  for (int calls = draw.From(1, 8); calls > 0; --calls) {
    Call call;
    call.acts.clear();
    for (int acts = draw.From(1, 6); acts > 0; --acts) {
      const bool hangs = draw.OneIn(rarity);
      call.acts.push_back(DrawAct(draw, hangs));
      if (!hangs) continue;
      call.timeout = patience * 10 * kShortDelay;
      schedule.ends_by_deadline = true;
    }
    schedule.calls.push_back(call);
  }
  return hedging;
}

Outcome OutcomeByA6(const HedgingSchedule& hedging) {
  Model model(hedging.rules);
  Outcome outcome;
  for (const Call& call : hedging.schedule.calls) {
    outcome.push_back(model.Run(call));
  }
  return outcome;
}

}  // namespace verbena::differential
