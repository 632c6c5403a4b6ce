#include "tools/rpc_bench/options.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
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
constexpr double kMaxRate = 1e9;
constexpr uint64_t kMaxIterations = 1'000'000'000'000;
constexpr uint32_t kMaxReceiveDepth = 16384;
constexpr uint32_t kMaxInlineBytes = 4096;
constexpr int kMaxIbPort = 254;
constexpr int kMaxGidIndex = 255;
constexpr int kMaxProcessor = 1023;
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

absl::Status ParseSize(absl::string_view flag, absl::string_view text,
                       uint64_t& bytes) {
  for (const Unit& unit : kUnits) {
    if (!absl::EndsWith(text, unit.suffix)) continue;
    uint64_t number = 0;
    if (absl::SimpleAtoi(text.substr(0, text.size() - unit.suffix.size()),
                         &number) &&
        number <= kMaxSizeBytes / unit.bytes) {
      bytes = number * unit.bytes;
      return absl::OkStatus();
    }
    break;
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s=%s: want a number of bytes from 0 to %d, as in 64, 4KiB or 1MiB%s",
      flag, text, kMaxSizeBytes,
      flag == "--size" ? ", or several of them with commas" : ""));
}

absl::StatusOr<uint64_t> ParsePayloadSize(absl::string_view text) {
  uint64_t bytes = 0;
  RETURN_IF_ERROR(ParseSize("--size", text, bytes));
  return bytes;
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

absl::Status Bad(absl::string_view flag, absl::string_view value,
                 absl::string_view want) {
  return absl::InvalidArgumentError(
      absl::StrCat(flag, "=", value, ": want ", want));
}

template <typename T>
absl::Status ParseNumber(absl::string_view flag, absl::string_view text, T min,
                         T max, T& number) {
  if (absl::SimpleAtoi(text, &number) && number >= min && number <= max) {
    return absl::OkStatus();
  }
  return Bad(flag, text, absl::StrCat("a number from ", min, " to ", max));
}

absl::StatusOr<std::string> ParseLayer(absl::string_view text) {
  for (absl::string_view layer : {"verbs", "transport", "rpc"}) {
    if (text == layer) return std::string(text);
  }
  return Bad("--layer", text, "verbs, transport, rpc, or several with commas");
}

absl::StatusOr<Op> ParseOp(absl::string_view text) {
  for (Op op : {Op::kEcho, Op::kSend, Op::kWrite, Op::kRead}) {
    if (text == OpName(op)) return op;
  }
  return Bad("--verbs-op", text, "echo, send, write, read, or several of them");
}

absl::Status ParsePayload(absl::string_view text, Options& options) {
  if (text == "field") {
    options.payload = PayloadPlace::kField;
  } else if (text == "attachment") {
    options.payload = PayloadPlace::kAttachment;
  } else {
    return Bad("--payload", text, "field or attachment");
  }
  return absl::OkStatus();
}

absl::Status ParseRate(absl::string_view text, Options& options) {
  if (absl::SimpleAtod(text, &options.rate_per_s) && options.rate_per_s >= 1 &&
      options.rate_per_s <= kMaxRate) {
    return absl::OkStatus();
  }
  return Bad("--rate", text, "calls a second, from 1 to 1e9");
}

absl::Status ParsePin(absl::string_view text, Options& options) {
  if (text == "off") {
    options.pin = false;
    return absl::OkStatus();
  }
  std::vector<int> processors;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    processors.emplace_back();
    RETURN_IF_ERROR(
        ParseNumber("--pin", part, 0, kMaxProcessor, processors.back()));
  }
  if (processors.size() > 2) {
    return Bad("--pin", text, "off, or the processors of client and server");
  }
  options.pin_client = processors.front();
  options.pin_server = processors.back();
  return absl::OkStatus();
}

absl::Status ParseMtu(absl::string_view text, Options& options) {
  for (int mtu : {256, 512, 1024, 2048, 4096}) {
    if (text != absl::StrCat(mtu)) continue;
    options.mtu_bytes = mtu;
    return absl::OkStatus();
  }
  return Bad("--mtu", text, "256, 512, 1024, 2048 or 4096");
}

absl::Status ParseContinuedMax(absl::string_view text, Options& options) {
  uint64_t bytes = 0;
  RETURN_IF_ERROR(ParseSize("--continued-max", text, bytes));
  if (bytes > transport::kContinuedBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("--continued-max=", text, ": want at most ",
                     SizeName(transport::kContinuedBytesMax)));
  }
  options.continued_max_bytes = bytes;
  return absl::OkStatus();
}

absl::Status ParseInline(absl::string_view text, Options& options) {
  return ParseNumber<uint32_t>("--inline", text, 0, kMaxInlineBytes,
                               options.inline_bytes.emplace());
}

absl::Status SetOutput(absl::string_view file, Output& output) {
  output.wanted = true;
  output.file = std::string(file);
  return absl::OkStatus();
}

absl::Status ParseServer(absl::string_view value, Options& options) {
  options.server = true;
  if (value.empty()) return absl::OkStatus();
  return ParseAddress("--server", value, 0, options.listen);
}

enum class Takes { kNothing, kValue, kMaybeValue };

struct Flag {
  absl::string_view name;
  Takes takes;
  bool server;  // Means something to a server.
  absl::Status (*parse)(absl::string_view value, Options& options);
};

absl::Status Set(bool& option) {
  option = true;
  return absl::OkStatus();
}

absl::Status Set(absl::string_view value, std::string& option) {
  option = std::string(value);
  return absl::OkStatus();
}

using Text = absl::string_view;

constexpr Flag kFlags[] = {
    {"--bulk-threshold", Takes::kValue, false,
     [](Text v, Options& o) {
       return ParseSize("--bulk-threshold", v, o.bulk_threshold_bytes);
     }},
    {"--continued-max", Takes::kValue, true, ParseContinuedMax},
    {"--csv", Takes::kMaybeValue, false,
     [](Text v, Options& o) { return SetOutput(v, o.csv); }},
    {"--device", Takes::kValue, true,
     [](Text v, Options& o) { return Set(v, o.device); }},
    {"--duration", Takes::kValue, false, ParseDurationFlag},
    {"--events", Takes::kNothing, true,
     [](Text, Options& o) { return Set(o.events); }},
    {"--gid-index", Takes::kValue, false,
     [](Text v, Options& o) {
       return ParseNumber("--gid-index", v, 0, kMaxGidIndex, o.gid_index);
     }},
    {"--help", Takes::kNothing, true,
     [](Text, Options& o) { return Set(o.help); }},
    {"--ib-port", Takes::kValue, false,
     [](Text v, Options& o) {
       return ParseNumber("--ib-port", v, 1, kMaxIbPort, o.ib_port);
     }},
    {"--idle", Takes::kNothing, false,
     [](Text, Options& o) { return Set(o.idle); }},
    {"--inline", Takes::kValue, false, ParseInline},
    {"--iterations", Takes::kValue, false,
     [](Text v, Options& o) {
       return ParseNumber<uint64_t>("--iterations", v, 1, kMaxIterations,
                                    o.iterations);
     }},
    {"--json", Takes::kMaybeValue, false,
     [](Text v, Options& o) { return SetOutput(v, o.json); }},
    {"--layer", Takes::kValue, false,
     [](Text v, Options& o) { return ParseList(v, ParseLayer, o.layers); }},
    {"--mtu", Takes::kValue, false, ParseMtu},
    {"--outstanding", Takes::kValue, false,
     [](Text v, Options& o) {
       return ParseList(v, ParseOutstanding, o.outstanding);
     }},
    {"--payload", Takes::kValue, false, ParsePayload},
    {"--pin", Takes::kValue, true, ParsePin},
    {"--plot", Takes::kValue, false,
     [](Text v, Options& o) { return Set(v, o.plot); }},
    {"--rate", Takes::kValue, false, ParseRate},
    {"--rx-depth", Takes::kValue, false,
     [](Text v, Options& o) {
       return ParseNumber<uint32_t>("--rx-depth", v, 2, kMaxReceiveDepth,
                                    o.receive_depth);
     }},
    {"--server", Takes::kMaybeValue, true, ParseServer},
    {"--size", Takes::kValue, false,
     [](Text v, Options& o) {
       return ParseList(v, ParsePayloadSize, o.sizes_bytes);
     }},
    {"--target", Takes::kValue, false,
     [](Text v, Options& o) {
       return ParseAddress("--target", v, 1, o.target);
     }},
    {"--validate", Takes::kNothing, false,
     [](Text, Options& o) { return Set(o.validate); }},
    {"--verbs-op", Takes::kValue, false,
     [](Text v, Options& o) { return ParseList(v, ParseOp, o.verbs_ops); }},
};

// Null if there is no such flag.
const Flag* Find(absl::string_view name) {
  const Flag* const found =
      std::find_if(std::begin(kFlags), std::end(kFlags),
                   [name](const Flag& flag) { return flag.name == name; });
  return found == std::end(kFlags) ? nullptr : found;
}

absl::Status ParseFlag(const Flag& flag, bool has_value,
                       absl::string_view value, Options& options) {
  if (flag.takes == Takes::kNothing && has_value) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag.name, " takes no value"));
  }
  if (value.empty() && (has_value || flag.takes == Takes::kValue)) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag.name, " is followed by no value"));
  }
  return flag.parse(value, options);
}

// A server only serves: what says how to measure means nothing to it.
absl::Status CheckTogether(const std::set<absl::string_view>& flags) {
  const auto refuse = [](absl::string_view one, absl::string_view other,
                         absl::string_view reason) {
    return absl::InvalidArgumentError(
        absl::StrCat(one, " and ", other, " exclude one another: ", reason));
  };
  if (flags.contains("--iterations") && flags.contains("--duration")) {
    return refuse("--iterations", "--duration", "each says how long");
  }
  if (!flags.contains("--server")) return absl::OkStatus();
  for (const Flag& flag : kFlags) {
    if (!flag.server && flags.contains(flag.name)) {
      return refuse("--server", flag.name, "a server measures nothing");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Options> ParseOptions(absl::Span<const char* const> arguments) {
  Options options;
  std::set<absl::string_view> seen;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const absl::string_view argument = arguments[i];
    if (!absl::StartsWith(argument, "--")) {
      return absl::InvalidArgumentError(absl::StrCat(
          "unexpected argument ", argument, "; flags begin with --"));
    }
    auto [name, value] = std::pair<absl::string_view, absl::string_view>(
        absl::StrSplit(argument, absl::MaxSplits('=', 1)));
    const Flag* const flag = Find(name);
    if (flag == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "unknown flag ", name, "; --help lists those there are"));
    }
    const bool has_value = absl::StrContains(argument, "=");
    if (!has_value && flag->takes == Takes::kValue &&
        i + 1 < arguments.size() && !absl::StartsWith(arguments[i + 1], "--")) {
      value = arguments[++i];
    }
    RETURN_IF_ERROR(ParseFlag(*flag, has_value, value, options));
    if (!seen.insert(flag->name).second) {
      return absl::InvalidArgumentError(absl::StrCat(name, " is given twice"));
    }
  }
  RETURN_IF_ERROR(CheckTogether(seen));
  return options;
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
