#include "tools/rpc_bench/flags.h"

#include "absl/strings/str_split.h"
#include "tools/command_line/flag_values.h"
#include "transport/base/status_macros.h"

namespace verbena::bench {
namespace {

constexpr int kMaxProcessor = 1023;

}  // namespace

absl::StatusOr<Pinning> ReadPinning(absl::string_view flag,
                                    absl::string_view text) {
  Pinning pinning;
  pinning.on = text != "off";
  if (text.empty() || !pinning.on) return pinning;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ',');
  if (parts.size() > 2) {
    return tool::WrongFlag(flag, text,
                           "off, or the processors of client and server");
  }
  ASSIGN_OR_RETURN(pinning.client,
                   tool::ReadNumber(flag, parts.front(), 0, kMaxProcessor));
  ASSIGN_OR_RETURN(pinning.server,
                   tool::ReadNumber(flag, parts.back(), 0, kMaxProcessor));
  return pinning;
}

}  // namespace verbena::bench
