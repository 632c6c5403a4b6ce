#include "tests/differential/schedule.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/differential/draw.h"

namespace verbena::differential {
namespace {

// Lengths of requests and replies, below and above the limits of the config.
constexpr size_t kShort = 50;
constexpr size_t kLong = 200;
constexpr int kLimit = 100;

// Codes that services end with, and that policies name. RESOURCE_EXHAUSTED is
// left to CodesOf(), because a policy may not name it beside a limit of sizes.
constexpr absl::StatusCode kCodes[] = {
    absl::StatusCode::kUnavailable,    absl::StatusCode::kAborted,
    absl::StatusCode::kInternal,       absl::StatusCode::kNotFound,
    absl::StatusCode::kUnknown,        absl::StatusCode::kCancelled,
    absl::StatusCode::kDataLoss,       absl::StatusCode::kDeadlineExceeded,
    absl::StatusCode::kUnauthenticated};

// The subject of a schedule, beside retries.
enum class Kind : uint8_t { kPlain, kHangs, kDeaths, kAway };

struct Theme {
  Kind kind = Kind::kPlain;
  bool throttles = false;
  absl::Duration near_deadline;
};

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", text, "\"");
}

std::string DrawRetryPolicy(Draw& draw, const Theme& theme, bool limits_sizes) {
  std::vector<std::string> codes;
  // Most calls are to be tried again.
  if (!draw.OneIn(4)) codes.push_back(Quoted("UNAVAILABLE"));
  while (codes.empty() || draw.OneIn(2)) {
    codes.push_back(Quoted(absl::StatusCodeToString(draw.Of(kCodes))));
  }
  if (theme.kind == Kind::kHangs && draw.OneIn(2)) {
    codes.push_back(Quoted("DEADLINE_EXCEEDED"));
  }
  if (!limits_sizes && draw.OneIn(4)) {
    codes.push_back(Quoted("RESOURCE_EXHAUSTED"));
  }
  constexpr const char* kPauses[] = {"0.001s", "0.002s", "0.003s"};
  constexpr const char* kMultipliers[] = {"0.5", "1", "1.6", "3"};
  return absl::StrCat(
      R"("retryPolicy": {"maxAttempts": )", draw.From(2, 7),
      R"(, "initialBackoff": ")", draw.Of(kPauses), R"(", "maxBackoff": ")",
      draw.Of(kPauses), R"(", "backoffMultiplier": )", draw.Of(kMultipliers),
      R"(, "retryableStatusCodes": [)", absl::StrJoin(codes, ", "), "]}");
}

std::string DrawMethodConfig(Draw& draw, const std::string& name,
                             const Theme& theme) {
  std::vector<std::string> fields = {absl::StrCat(R"("name": [)", name, "]")};
  const bool limits_sizes = draw.OneIn(3);
  if (limits_sizes && draw.OneIn(2)) {
    fields.push_back(absl::StrCat(R"("maxRequestMessageBytes": )", kLimit));
  } else if (limits_sizes) {
    fields.push_back(absl::StrCat(R"("maxResponseMessageBytes": )", kLimit));
  }
  if (!draw.OneIn(6))
    fields.push_back(DrawRetryPolicy(draw, theme, limits_sizes));
  if (draw.OneIn(3)) {
    fields.push_back(
        absl::StrCat(R"("waitForReady": )", draw.OneIn(2) ? "true" : "false"));
  }
  if (draw.OneIn(4)) fields.push_back(R"("timeout": "100s")");
  return absl::StrCat("{", absl::StrJoin(fields, ", "), "}");
}

std::string DrawConfig(Draw& draw, const Theme& theme) {
  // From the widest name to the narrowest.
  std::vector<std::string> names = {
      "{}",
      R"({"service": "verbena.differential.First"})",
      R"({"service": "verbena.differential.First", "method": "Get"})",
      R"({"service": "verbena.differential.Second", "method": "Get"})",
      R"({"service": "verbena.differential.Third", "method": "Get"})",
      R"({"service": "verbena.differential.Second"},
         {"service": "verbena.differential.First", "method": "Put"})"};
  std::vector<std::string> methods = {
      DrawMethodConfig(draw, names[draw.Number(2)], theme)};
  for (size_t i = 2; i < names.size(); ++i) {
    if (draw.OneIn(4)) {
      methods.push_back(DrawMethodConfig(draw, names[i], theme));
    }
  }
  std::string throttling;
  if (theme.throttles) {
    // Not "1": see differences.h.
    constexpr const char* kRatios[] = {"0.1",   "0.2", "0.3", "0.5",
                                       "0.125", "1.0", "0.7", "2.5"};
    throttling =
        absl::StrCat(R"(, "retryThrottling": {"maxTokens": )", draw.From(1, 8),
                     R"(, "tokenRatio": )", draw.Of(kRatios), "}");
  }
  return absl::StrCat(R"({"methodConfig": [)", absl::StrJoin(methods, ",\n"),
                      "]", throttling, "}");
}

Act DrawAct(Draw& draw, const Theme& theme) {
  Act act;
  if (theme.kind == Kind::kDeaths && draw.OneIn(4)) {
    act.kind = Act::Kind::kDie;
    return act;
  }
  if (draw.OneIn(5)) act.reply_bytes = kLong;
  if (draw.OneIn(10)) act.sends_initial_metadata = true;
  if (!draw.OneIn(4)) act.code = absl::StatusCode::kUnavailable;
  if (draw.OneIn(6)) act.code = draw.Of(kCodes);
  if (draw.OneIn(30)) act.code = absl::StatusCode::kResourceExhausted;
  if (draw.OneIn(3)) {
    constexpr const char* kPushbacks[] = {
        "0", "1", "2",  "-1", "-0", "-9223372036854775808", "soon", "1.5",
        "",  "7", " 3", "+1", "01", "9223372036854775808",  "1ms"};
    act.pushbacks.emplace_back(draw.OneIn(2) ? "1" : draw.Of(kPushbacks));
    if (draw.OneIn(6)) act.pushbacks.emplace_back(draw.Of(kPushbacks));
  }
  return act;
}

Call DrawCall(Draw& draw, const Theme& theme) {
  constexpr Method kMethods[] = {Method::kFirstGet, Method::kFirstGet,
                                 Method::kFirstPut, Method::kSecondGet};
  Call call;
  call.method = draw.Of(kMethods);
  if (draw.OneIn(12)) call.request_bytes = draw.OneIn(2) ? kLong : kShort;
  if (draw.OneIn(4)) call.wait_for_ready = draw.OneIn(2);
  call.acts.clear();
  for (int attempts = draw.From(1, 5); attempts > 0; --attempts) {
    call.acts.push_back(DrawAct(draw, theme));
  }
  return call;
}

}  // namespace

Schedule DrawSchedule(uint64_t seed, int patience) {
  Draw draw(seed);
  Theme theme;
  theme.near_deadline = patience * kNearDeadline;
  constexpr Kind kKinds[] = {Kind::kPlain,  Kind::kPlain, Kind::kPlain,
                             Kind::kPlain,  Kind::kPlain, Kind::kPlain,
                             Kind::kPlain,  Kind::kHangs, Kind::kHangs,
                             Kind::kDeaths, Kind::kAway};
  theme.kind = draw.Of(kKinds);
  theme.throttles = draw.OneIn(2);
  Schedule schedule;
  schedule.id = seed;
  schedule.config = DrawConfig(draw, theme);
  const int calls = theme.throttles ? draw.From(4, 16) : draw.From(1, 6);
  for (int i = 0; i < calls; ++i) {
    schedule.calls.push_back(DrawCall(draw, theme));
  }
  if (theme.kind == Kind::kHangs) {
    Call& call = schedule.calls[draw.Number(calls)];
    call.acts.back().kind = Act::Kind::kHang;
    call.timeout = theme.near_deadline;
    schedule.ends_by_deadline = true;
  }
  if (theme.kind == Kind::kAway) {
    schedule.calls[draw.Number(calls)].server_is_away = true;
    schedule.ends_by_deadline = true;
  }
  // A channel may take its time to find a server that has returned.
  bool returned = theme.kind == Kind::kDeaths;
  for (Call& call : schedule.calls) {
    if (returned) call.wait_for_ready = true;
    if (call.server_is_away) {
      call.request_bytes = 8;
      call.timeout = theme.near_deadline;
      returned = true;
    }
  }
  return schedule;
}

std::string ToString(const Schedule& schedule) {
  std::string text =
      absl::StrCat("schedule ", schedule.id, "\n", schedule.config, "\n");
  for (const Call& call : schedule.calls) {
    absl::StrAppend(&text, "call of method ", call.method, " with ",
                    call.request_bytes, " bytes, timeout ",
                    absl::FormatDuration(call.timeout));
    if (call.wait_for_ready.has_value()) {
      absl::StrAppend(&text, ", wait_for_ready ", *call.wait_for_ready);
    }
    if (call.server_is_away) absl::StrAppend(&text, ", nobody listens");
    for (const Act& act : call.acts) {
      absl::StrAppend(&text, "\n  ",
                      act.kind == Act::Kind::kHang ? "hangs"
                      : act.kind == Act::Kind::kDie
                          ? "dies"
                          : absl::StatusCodeToString(act.code));
      if (act.sends_initial_metadata) absl::StrAppend(&text, " with metadata");
      for (const std::string& pushback : act.pushbacks) {
        absl::StrAppend(&text, " pushback '", pushback, "'");
      }
      absl::StrAppend(&text, " ", act.reply_bytes, " bytes");
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace verbena::differential
