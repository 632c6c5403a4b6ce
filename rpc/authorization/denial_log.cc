#include "rpc/authorization/denial_log.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "transport/base/clock.h"
#include "transport/base/log.h"

namespace verbena::internal {
namespace {

// As much of a text as an entry shows.
constexpr size_t kShownBytes = 200;
// As many names of a client.
constexpr size_t kShownNames = 4;

std::string Shown(absl::string_view text) {
  const bool cut = text.size() > kShownBytes;
  return absl::StrCat(absl::CHexEscape(text.substr(0, kShownBytes)),
                      cut ? "..." : "");
}

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", Shown(text), "\"");
}

// Names the client, and as much as it has proved.
std::string ShownPeer(const transport::AuthContext& peer) {
  std::vector<std::string> names = PrincipalsOf(peer);
  if (names.empty()) return "a client without a name";
  const bool cut = names.size() > kShownNames;
  if (cut) names.resize(kShownNames);
  return absl::StrCat(absl::StrJoin(names, ", ",
                                    [](std::string* out, const auto& name) {
                                      out->append(Quoted(name));
                                    }),
                      cut ? ", ..." : "");
}

}  // namespace

std::string DenialText(const PolicyRequest& request, absl::string_view address,
                       absl::string_view policy, absl::string_view rule) {
  const std::string why =
      rule.empty()
          ? absl::StrCat("no allow rule of the policy ", Quoted(policy),
                         " matches")
          : absl::StrCat("the deny rule ", Quoted(rule), " of the policy ",
                         Quoted(policy), " matches");
  return absl::StrCat("denied a call of ", Shown(request.path), " by ",
                      ShownPeer(request.peer), " at ", address, ": ", why);
}

std::optional<int64_t> DenialLog::Count(absl::Time now) {
  const base::MutexLock lock(mutex_);
  if (now >= period_ends_) {
    period_ends_ = now + kPeriod;
    logged_ = 0;
  }
  if (logged_ == kMost) {
    ++left_out_;
    return std::nullopt;
  }
  ++logged_;
  return std::exchange(left_out_, 0);
}

// Makes the text only if it is written: in a flood a call costs no more than
// the lock and the clock.
void DenialLog::Note(const PolicyRequest& request, absl::string_view address,
                     absl::string_view policy, absl::string_view rule) {
  if (!base::Log::OfProcess().Wants(LogSeverity::kWarning)) return;
  const std::optional<int64_t> left_out = Count(base::Now());
  if (!left_out.has_value()) return;
  std::string text = DenialText(request, address, policy, rule);
  if (*left_out > 0) {
    absl::StrAppend(&text, " (", *left_out,
                    " denied calls before this one were not logged)");
  }
  base::Log::OfProcess().Write(LogSeverity::kWarning, text);
}

}  // namespace verbena::internal
