#include "tools/rpc_bench/flags.h"

#include <utility>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "transport/base/status_macros.h"

namespace verbena::bench {
namespace {

constexpr int kMaxProcessor = 1023;

constexpr std::pair<absl::string_view, uint64_t> kUnits[] = {
    {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"K", 1 << 10},
    {"M", 1 << 20},   {"B", 1},         {"", 1},
};

template <typename... Parts>
absl::Status Refuse(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

}  // namespace

absl::StatusOr<std::set<std::string>> SetFlags(
    absl::Span<const char* const> arguments,
    const std::map<std::string, std::string>& implied) {
  std::set<std::string> given;
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view argument = arguments[i];
    if (!absl::ConsumePrefix(&argument, "--")) {
      return Refuse("unexpected argument ", arguments[i],
                    "; flags begin with --");
    }
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(argument, absl::MaxSplits('=', 1));
    // C++ has no names with hyphens in them.
    const std::string name = absl::StrReplaceAll(parts.first, {{"-", "_"}});
    std::string value = parts.second;
    absl::CommandLineFlag* const flag = absl::FindCommandLineFlag(name);
    if (flag == nullptr) {
      return Refuse("unknown flag --", parts.first,
                    "; --help lists those there are");
    }
    if (!absl::StrContains(argument, "=")) {
      const auto found = implied.find(name);
      if (flag->IsOfType<bool>()) {
        value = "true";
      } else if (found != implied.end()) {
        value = found->second;
      } else if (i + 1 < arguments.size() &&
                 !absl::StartsWith(arguments[i + 1], "--")) {
        value = arguments[++i];
      }
    }
    if (value.empty()) {
      return Refuse("--", parts.first, " is followed by no value");
    }
    std::string error;
    if (!flag->ParseFrom(value, &error)) {
      return Refuse(error, "; --", parts.first, ": ", flag->Help());
    }
    if (!given.insert(name).second) {
      return Refuse("--", parts.first, " is given twice");
    }
  }
  return given;
}

std::string FlagsHelp() {
  std::map<std::string, const absl::CommandLineFlag*> sorted;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    sorted.emplace(std::string(name), flag);
  }
  std::string help;
  for (const auto& [name, flag] : sorted) {
    const std::string value = flag->DefaultValue();
    absl::StrAppend(&help, "  --", absl::StrReplaceAll(name, {{"_", "-"}}));
    if (!value.empty() && !flag->IsOfType<bool>()) {
      absl::StrAppend(&help, " (", value, ")");
    }
    absl::StrAppend(&help, "\n      ",
                    absl::StrReplaceAll(flag->Help(), {{"\n", "\n      "}}),
                    "\n");
  }
  return help;
}

absl::Status WrongFlag(absl::string_view flag, const absl::AlphaNum& seen,
                       absl::string_view wanted) {
  return Refuse("--", flag, "=", seen, ": want ", wanted);
}

absl::StatusOr<uint64_t> ReadBytes(absl::string_view flag,
                                   absl::string_view text, uint64_t max) {
  for (const auto& [suffix, bytes] : kUnits) {
    if (!absl::EndsWith(text, suffix)) continue;
    uint64_t number = 0;
    if (absl::SimpleAtoi(absl::StripSuffix(text, suffix), &number) &&
        number <= max / bytes) {
      return number * bytes;
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

absl::Status CheckWords(absl::string_view flag,
                        const std::vector<std::string>& words,
                        absl::string_view allowed) {
  const std::set<std::string> known = absl::StrSplit(allowed, ',');
  for (const std::string& word : words) {
    if (known.contains(word)) continue;
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
