#include "tools/command_line/parse_flags.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace verbena::tool {

absl::StatusOr<std::vector<std::string>> ParseFlags(int argc, char** argv) {
  std::vector<std::string> words;
  std::set<absl::string_view> lists;  // The lists that were given.
  for (int i = 1; i < argc; ++i) {
    const absl::string_view argument = argv[i];
    absl::string_view text = argument;
    if (text == "--") {
      words.insert(words.end(), argv + i + 1, argv + argc);
      break;
    }
    // A flag begins with one hyphen or two. A single "-" is a word.
    if (!absl::ConsumePrefix(&text, "-") || text.empty()) {
      words.emplace_back(argument);
      continue;
    }
    absl::ConsumePrefix(&text, "-");
    std::pair<std::string, std::string> parts =
        absl::StrSplit(text, absl::MaxSplits('=', 1));
    absl::CommandLineFlag* flag = absl::FindCommandLineFlag(parts.first);
    if (!absl::StrContains(text, '=')) {
      parts.second = "true";
      if (flag == nullptr && absl::StartsWith(parts.first, "no")) {
        flag = absl::FindCommandLineFlag(parts.first.substr(2));
        if (flag != nullptr && !flag->IsOfType<bool>()) flag = nullptr;
        parts.second = "false";
      }
      if (flag != nullptr && !flag->IsOfType<bool>()) {
        if (i + 1 == argc) {
          return absl::InvalidArgumentError(
              absl::StrCat(argument, " needs a value: ", argument, "=..."));
        }
        parts.second = argv[++i];
      }
    }
    if (flag == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "unknown flag ", argument, "; --help lists those there are"));
    }
    // A list that is given again gets further parts.
    if (flag->IsOfType<std::vector<std::string>>() &&
        !lists.insert(flag->Name()).second) {
      parts.second = absl::StrCat(flag->CurrentValue(), ",", parts.second);
    }
    std::string error;
    if (!flag->ParseFrom(parts.second, &error)) {
      return absl::InvalidArgumentError(
          absl::StrCat(argument, ": ", error, "; it is: ", flag->Help()));
    }
  }
  return words;
}

std::string FlagsHelp() {
  std::map<std::string, const absl::CommandLineFlag*> sorted;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    sorted.emplace(std::string(name), flag);
  }
  std::string help;
  for (const auto& [name, flag] : sorted) {
    absl::StrAppend(&help, "  --", name, "=", flag->DefaultValue(), "\n      ",
                    flag->Help(), "\n");
  }
  return help;
}

}  // namespace verbena::tool
