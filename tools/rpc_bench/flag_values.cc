#include "tools/rpc_bench/flag_values.h"

#include <algorithm>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "transport/base/status_macros.h"

namespace verbena::bench {
namespace {

constexpr int kMaxProcessor = 1023;

struct Unit {
  absl::string_view suffix;
  uint64_t bytes;
};

constexpr Unit kUnits[] = {
    {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"K", 1 << 10},
    {"M", 1 << 20},   {"B", 1},         {"", 1},
};

}  // namespace

absl::StatusOr<uint64_t> ReadBytes(absl::string_view flag,
                                   absl::string_view text, uint64_t max) {
  for (const Unit& unit : kUnits) {
    if (!absl::EndsWith(text, unit.suffix)) continue;
    uint64_t number = 0;
    if (absl::SimpleAtoi(text.substr(0, text.size() - unit.suffix.size()),
                         &number) &&
        number <= max / unit.bytes) {
      return number * unit.bytes;
    }
    break;
  }
  return WrongFlag(flag, text,
                   absl::StrCat("a number of bytes from 0 to ", max,
                                ", as in 64, 4KiB or 1MiB"));
}

absl::StatusOr<int> ReadNumber(absl::string_view flag, absl::string_view text,
                               int min, int max) {
  int number = 0;
  if (absl::SimpleAtoi(text, &number) && number >= min && number <= max) {
    return number;
  }
  return WrongFlag(flag, text,
                   absl::StrCat("a number from ", min, " to ", max));
}

absl::StatusOr<absl::Duration> ReadTime(absl::string_view flag,
                                        absl::string_view text) {
  absl::Duration time;
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) {
    time = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, &time)) {
    time = absl::ZeroDuration();
  }
  if (time >= absl::Milliseconds(1) && time <= absl::Hours(1)) return time;
  return WrongFlag(flag, text, "a time from 1ms to 1h, as in 500ms, 2s or 2");
}

absl::Status CheckAddress(absl::string_view flag, absl::string_view text,
                          int min_port) {
  const size_t colon = text.rfind(':');
  int port = 0;
  if (colon != absl::string_view::npos && colon > 0 &&
      absl::SimpleAtoi(text.substr(colon + 1), &port) && port >= min_port &&
      port <= std::numeric_limits<uint16_t>::max()) {
    return absl::OkStatus();
  }
  return WrongFlag(flag, text,
                   absl::StrCat("an address with a port from ", min_port,
                                " to 65535, as in 10.0.0.7:50051"));
}

absl::Status CheckWords(absl::string_view flag,
                        const std::vector<std::string>& words,
                        absl::string_view allowed) {
  const std::vector<absl::string_view> known = absl::StrSplit(allowed, ',');
  for (const std::string& word : words) {
    if (std::find(known.begin(), known.end(), word) != known.end()) continue;
    return WrongFlag(flag, word, absl::StrCat("some of ", allowed));
  }
  return absl::OkStatus();
}

absl::StatusOr<Pinning> ReadPinning(absl::string_view flag,
                                    absl::string_view text) {
  Pinning pinning;
  pinning.on = text != "off";
  if (text.empty() || !pinning.on) return pinning;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ',');
  if (parts.size() > 2) {
    return WrongFlag(flag, text, "off, or the processors of client and server");
  }
  ASSIGN_OR_RETURN(pinning.client,
                   ReadNumber(flag, parts.front(), 0, kMaxProcessor));
  ASSIGN_OR_RETURN(pinning.server,
                   ReadNumber(flag, parts.back(), 0, kMaxProcessor));
  return pinning;
}

}  // namespace verbena::bench
