#include "tools/rpc_bench/options.h"

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/base/status_macros.h"

namespace verbena::bench {
namespace {

// With a few bytes around it, still a message that channels and servers take
// with their default limits.
constexpr uint64_t kMaxSizeBytes = (uint64_t{64} << 20) - 64;
constexpr int kMaxOutstanding = 1024;
constexpr absl::Duration kMinDuration = absl::Milliseconds(1);
constexpr absl::Duration kMaxDuration = absl::Hours(1);

struct Unit {
  absl::string_view suffix;
  uint64_t bytes;
};

constexpr Unit kUnits[] = {
    {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"K", 1 << 10},
    {"M", 1 << 20},   {"B", 1},         {"", 1},
};

absl::StatusOr<uint64_t> ParseSize(absl::string_view text) {
  for (const Unit& unit : kUnits) {
    if (!absl::EndsWith(text, unit.suffix)) continue;
    uint64_t number = 0;
    if (absl::SimpleAtoi(text.substr(0, text.size() - unit.suffix.size()),
                         &number) &&
        number <= kMaxSizeBytes / unit.bytes) {
      return number * unit.bytes;
    }
    break;
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "--size=%s: want a number of bytes from 0 to %d, as in 64, 4KiB or 1MiB, "
      "or several of them with commas",
      text, kMaxSizeBytes));
}

absl::StatusOr<int> ParseOutstanding(absl::string_view text) {
  int number = 0;
  if (absl::SimpleAtoi(text, &number) && number >= 1 &&
      number <= kMaxOutstanding) {
    return number;
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "--outstanding=%s: want a number of calls from 1 to %d, or several of "
      "them with commas",
      text, kMaxOutstanding));
}

// Reads a list like "64,4KiB" by `parse_one` into `values`.
template <typename T, typename Parse>
absl::Status ParseList(absl::string_view text, const Parse& parse_one,
                       std::vector<T>& values) {
  values.clear();
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    ASSIGN_OR_RETURN(T value, parse_one(part));
    values.push_back(value);
  }
  return absl::OkStatus();
}

absl::Status ParseDurationFlag(absl::string_view text, Options& options) {
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) {
    options.duration = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, &options.duration)) {
    options.duration = absl::ZeroDuration();
  }
  if (options.duration >= kMinDuration && options.duration <= kMaxDuration) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "--duration=%s: want a time from %s to %s, as in 500ms, 2s or 2", text,
      absl::FormatDuration(kMinDuration), absl::FormatDuration(kMaxDuration)));
}

// Whether `address` looks like "host:port"; what resolves it checks the host.
bool IsAddress(absl::string_view address, int min_port) {
  const size_t colon = address.rfind(':');
  int port = 0;
  return colon != absl::string_view::npos && colon > 0 &&
         absl::SimpleAtoi(address.substr(colon + 1), &port) &&
         port >= min_port && port <= std::numeric_limits<uint16_t>::max();
}

absl::Status ParseAddress(absl::string_view flag, absl::string_view text,
                          int min_port, std::string& address) {
  if (!IsAddress(text, min_port)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s=%s: want an address with a port from %d to 65535, "
                        "as in 10.0.0.7:50051",
                        flag, text, min_port));
  }
  address = std::string(text);
  return absl::OkStatus();
}

// Whether `flag` must have a value.
bool TakesValue(absl::string_view flag) {
  return flag == "--target" || flag == "--size" || flag == "--outstanding" ||
         flag == "--duration" || flag == "--device";
}

absl::Status NoValue(absl::string_view flag, absl::string_view value) {
  if (value.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(flag, " takes no value"));
}

absl::Status ParseFlag(absl::string_view flag, absl::string_view value,
                       Options& options) {
  if (flag == "--help") {
    options.help = true;
    return NoValue(flag, value);
  }
  if (flag == "--json") {
    options.json = true;
    return NoValue(flag, value);
  }
  if (flag == "--server") {
    options.server = true;
    if (value.empty()) return absl::OkStatus();
    return ParseAddress(flag, value, 0, options.listen);
  }
  if (flag == "--target") return ParseAddress(flag, value, 1, options.target);
  if (flag == "--size") return ParseList(value, ParseSize, options.sizes_bytes);
  if (flag == "--outstanding") {
    return ParseList(value, ParseOutstanding, options.outstanding);
  }
  if (flag == "--duration") return ParseDurationFlag(value, options);
  if (flag == "--device") {
    options.device = std::string(value);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown flag ", flag, "; --help lists those there are"));
}

// A server only serves: what says how to measure means nothing to it.
absl::Status CheckTogether(const std::set<std::string>& flags) {
  if (!flags.contains("--server")) return absl::OkStatus();
  for (const char* other :
       {"--target", "--size", "--outstanding", "--duration", "--json"}) {
    if (!flags.contains(other)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--server and ", other,
                     " exclude one another: a server measures nothing"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Options> ParseOptions(absl::Span<const char* const> arguments) {
  Options options;
  std::set<std::string> seen;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const absl::string_view argument = arguments[i];
    if (!absl::StartsWith(argument, "--")) {
      return absl::InvalidArgumentError(absl::StrCat(
          "unexpected argument ", argument, "; flags begin with --"));
    }
    std::pair<absl::string_view, absl::string_view> flag =
        absl::StrSplit(argument, absl::MaxSplits('=', 1));
    const bool has_value = absl::StrContains(argument, "=");
    if (!has_value && TakesValue(flag.first) && i + 1 < arguments.size() &&
        !absl::StartsWith(arguments[i + 1], "--")) {
      flag.second = arguments[++i];
    }
    if (flag.second.empty() && (has_value || TakesValue(flag.first))) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag.first, " is followed by no value"));
    }
    RETURN_IF_ERROR(ParseFlag(flag.first, flag.second, options));
    if (!seen.insert(std::string(flag.first)).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag.first, " is given twice"));
    }
  }
  RETURN_IF_ERROR(CheckTogether(seen));
  return options;
}

absl::string_view Usage() {
  return
      R"(rpc_bench: what a call costs, in time and in throughput.

Without flags it starts a server process of its own on the best device at hand
and measures echo calls of 64 B, 4 KiB, 64 KiB and 1 MiB: latency with one call
outstanding, throughput with 32.

  --target=ADDRESS:PORT  measure the server there (rpc_bench --server)
  --server[=ADDRESS:PORT]
                         serve, by default on 0.0.0.0:50051, until SIGINT or
                         SIGTERM, and measure nothing; port 0 is any free port
  --size=N[,N...]        payload bytes of a call, as in 64, 4KiB or 1MiB
  --outstanding=N[,N...] calls under way at once; 1 calls in a blocking way,
                         more by callbacks
  --duration=TIME        of each measurement, as in 500ms, 2s or 2
  --device=NAME          soft, or the name of an RDMA device; without it, the
                         environment variable VERBENA_DEVICE if it is set
  --json                 one JSON object to standard output, nothing else
  --help                 this text

MB/s counts the payload of the requests; as many bytes come back. Exit code 0:
measured; 1: no server, or every call of a measurement failed; 2: bad flags.
)";
}

std::string SizeName(uint64_t bytes) {
  if (bytes != 0 && bytes % (1 << 20) == 0) {
    return absl::StrCat(bytes >> 20, " MiB");
  }
  if (bytes != 0 && bytes % (1 << 10) == 0) {
    return absl::StrCat(bytes >> 10, " KiB");
  }
  return absl::StrCat(bytes, " B");
}

}  // namespace verbena::bench
