#include "rpc/resolvers/etcd_target.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {
namespace {

constexpr size_t kEndPointsMax = 100;

absl::Status Refusal(const Target& target, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("the target \"", target.text, "\" ", why));
}

absl::Status CheckDuration(absl::string_view name, absl::Duration value,
                           absl::Duration least, absl::Duration most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("EtcdOptions::", name, " is ", absl::FormatDuration(value),
                   "; it must be between ", absl::FormatDuration(least),
                   " and ", absl::FormatDuration(most)));
}

absl::Status CheckEndPoints(const std::vector<std::string>& end_points) {
  if (end_points.empty() || end_points.size() > kEndPointsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("EtcdOptions::end_points has ", end_points.size(),
                     " elements; it must have 1 to ", kEndPointsMax));
  }
  for (const std::string& each : end_points) {
    if (!IsHostAndPort(each)) {
      return absl::InvalidArgumentError(
          absl::StrCat("EtcdOptions::end_points has \"", each,
                       "\"; it must be as 10.0.0.1:2379"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool IsHostAndPort(absl::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos || colon == 0) return false;
  uint32_t port = 0;
  if (!absl::SimpleAtoi(text.substr(colon + 1), &port) || port == 0 ||
      port > UINT16_MAX) {
    return false;
  }
  const absl::string_view host = text.substr(0, colon);
  if (host.front() == '[') return host.size() > 2 && host.back() == ']';
  return !absl::StrContains(host, ':') && !absl::StrContains(host, '/');
}

absl::StatusOr<EtcdTarget> ParseEtcdTarget(const Target& target) {
  EtcdTarget result;
  if (!target.authority.empty()) {
    result.end_points = absl::StrSplit(target.authority, ',');
  }
  if (result.end_points.size() > kEndPointsMax) {
    return Refusal(
        target, absl::StrCat("has more than ", kEndPointsMax, " end points"));
  }
  for (const std::string& each : result.end_points) {
    if (!IsHostAndPort(each)) {
      return Refusal(target,
                     absl::StrCat("has the end point \"", each,
                                  "\", which must be as 10.0.0.1:2379"));
    }
  }
  result.prefix = std::string(absl::StripSuffix(target.path, "/"));
  if (result.prefix.empty()) {
    return Refusal(target,
                   "has no prefix of keys: it must be as "
                   "etcd:///services/orders");
  }
  return result;
}

absl::Status CheckEtcdOptions(const EtcdOptions& options) {
  const absl::Duration day = absl::Hours(24);
  RETURN_IF_ERROR(CheckEndPoints(options.end_points));
  RETURN_IF_ERROR(CheckDuration("request_timeout", options.request_timeout,
                                absl::Milliseconds(10), absl::Hours(1)));
  RETURN_IF_ERROR(CheckDuration("check_interval", options.check_interval,
                                absl::Milliseconds(10), day));
  RETURN_IF_ERROR(CheckDuration("first_backoff", options.first_backoff,
                                absl::Milliseconds(1), day));
  RETURN_IF_ERROR(CheckDuration("max_backoff", options.max_backoff,
                                options.first_backoff, day));
  // Not `< 1`, which is false for a NaN.
  if (!(options.backoff_factor >= 1 && options.backoff_factor <= 100)) {
    return absl::InvalidArgumentError(
        absl::StrCat("EtcdOptions::backoff_factor is ", options.backoff_factor,
                     "; it must be between 1 and 100"));
  }
  return absl::OkStatus();
}

std::string EtcdRangeEnd(absl::string_view prefix) {
  return absl::StrCat(prefix, "0");  // The character after the slash.
}

}  // namespace verbena::internal
