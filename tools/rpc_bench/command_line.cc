#include "tools/rpc_bench/command_line.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace verbena::bench {
namespace {

template <typename... Parts>
absl::Status Refuse(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

}  // namespace

absl::StatusOr<std::set<std::string, std::less<>>> SetFlags(
    absl::Span<const char* const> arguments, const ImpliedValues& implied) {
  std::set<std::string, std::less<>> given;
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view argument = arguments[i];
    if (!absl::ConsumePrefix(&argument, "--")) {
      return Refuse("unexpected argument ", arguments[i],
                    "; flags begin with --");
    }
    const bool has_value = absl::StrContains(argument, "=");
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(argument, absl::MaxSplits('=', 1));
    auto [name, value] = parts;
    // C++ has no names with hyphens in them.
    std::replace(name.begin(), name.end(), '-', '_');
    absl::CommandLineFlag* const flag = absl::FindCommandLineFlag(name);
    if (flag == nullptr) {
      return Refuse("unknown flag --", parts.first,
                    "; --help lists those there are");
    }
    const auto implied_value = implied.find(name);
    if (!has_value && flag->IsOfType<bool>()) {
      value = "true";
    } else if (!has_value && implied_value != implied.end()) {
      value = implied_value->second;
    } else if (!has_value && i + 1 < arguments.size() &&
               !absl::StartsWith(arguments[i + 1], "--")) {
      value = arguments[++i];
    }
    if (value.empty())
      return Refuse("--", parts.first, " is followed by no value");
    std::string error;
    if (!flag->ParseFrom(value, &error)) return Refuse(error);
    if (!given.insert(name).second)
      return Refuse("--", parts.first, " is given twice");
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

}  // namespace verbena::bench
