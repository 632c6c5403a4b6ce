#include "tools/command_line/parse_flags.h"

#include <cstdlib>
#include <iostream>
#include <utility>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "rpc/version.h"

ABSL_FLAG(bool, help, false, "print this text");
ABSL_FLAG(bool, version, false, "print the version");

namespace verbena::tool {
namespace {

using absl::CommandLineFlag;

bool IsList(const CommandLineFlag& flag) {
  return flag.IsOfType<std::vector<std::string>>();
}

// Returns the flag `name`. If there is none, but it is a bool's after "no",
// returns that and sets `negated`. Otherwise returns null.
CommandLineFlag* Find(absl::string_view name, bool* negated) {
  CommandLineFlag* flag = absl::FindCommandLineFlag(name);
  if (flag != nullptr || !absl::ConsumePrefix(&name, "no")) return flag;
  flag = absl::FindCommandLineFlag(name);
  *negated = flag != nullptr && flag->IsOfType<bool>();
  return *negated ? flag : nullptr;
}

}  // namespace

// Goes through the arguments once. A value stands behind '=' or in the next
// argument, except for flags of bool and those with an implied value.
absl::StatusOr<CommandLine> ParseFlags(int argc, char** argv,
                                       const ImpliedValues& implied) {
  CommandLine line;
  for (int i = 1; i < argc; ++i) {
    const absl::string_view argument = argv[i];
    absl::string_view text = argument;
    if (text == "--") {
      line.words.insert(line.words.end(), argv + i + 1, argv + argc);
      break;
    }
    // A flag begins with one hyphen or two. A single "-" is a word.
    if (!absl::ConsumePrefix(&text, "-") || text.empty()) {
      line.words.emplace_back(argument);
      continue;
    }
    absl::ConsumePrefix(&text, "-");
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(text, absl::MaxSplits('=', 1));
    const bool has_value = absl::StrContains(text, '=');
    bool negated = false;
    CommandLineFlag* const flag =
        Find(absl::StrReplaceAll(parts.first, {{"-", "_"}}), &negated);
    // "--nofoo=true" would say two things at once.
    if (flag == nullptr || (negated && has_value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown flag ", argument, "; --help lists all flags"));
    }
    const std::string name(flag->Name());
    std::string value(parts.second);
    if (!has_value) {
      const auto found = implied.find(name);
      if (flag->IsOfType<bool>()) {
        value = negated ? "false" : "true";
      } else if (found != implied.end()) {
        value = found->second;
      } else if (i + 1 < argc && !absl::StartsWith(argv[i + 1], "--")) {
        value = argv[++i];
      } else {
        return absl::InvalidArgumentError(
            absl::StrCat(argument, " needs a value: ", argument, "=..."));
      }
    }
    if (IsList(*flag) && value.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(argument, " needs at least one value"));
    }
    // A list that is given again grows; any other flag takes its last value.
    if (!line.given.insert(name).second && IsList(*flag)) {
      value = absl::StrCat(flag->CurrentValue(), ",", value);
    }
    std::string error;
    if (!flag->ParseFrom(value, &error)) {
      return absl::InvalidArgumentError(absl::StrCat(
          argument, ": ", error, "; the flag means: ", flag->Help()));
    }
  }
  return line;
}

// Shows flags with hyphens, as users type them. A default of false says
// nothing, so it is left out.
std::string FlagsHelp() {
  // GetAllFlags() has no order.
  std::map<std::string, const CommandLineFlag*> sorted;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    sorted.emplace(std::string(name), flag);
  }
  std::string help;
  for (const auto& [name, flag] : sorted) {
    const std::string value = flag->DefaultValue();
    absl::StrAppend(&help, "  --", absl::StrReplaceAll(name, {{"_", "-"}}));
    if (!value.empty() && value != "false") {
      absl::StrAppend(&help, " (", value, ")");
    }
    absl::StrAppend(&help, "\n      ",
                    absl::StrReplaceAll(flag->Help(), {{"\n", "\n      "}}),
                    "\n");
  }
  return help;
}

// Ends the program in three cases: a wrong command line, --help and --version.
CommandLine ReadCommandLine(int argc, char** argv, const Program& program) {
  absl::StatusOr<CommandLine> line = ParseFlags(argc, argv, program.implied);
  if (line.ok() && !program.takes_words && !line->words.empty()) {
    line = absl::InvalidArgumentError(absl::StrCat(
        "unexpected argument ", line->words[0], "; flags begin with --"));
  }
  // Before --help is looked at: a wrong command line is an error with it, too.
  if (!line.ok()) {
    std::cerr << program.name << ": " << line.status().message() << std::endl;
    std::exit(kWrongCommandLine);
  }
  const bool help = absl::GetFlag(FLAGS_help);
  if (!help && !absl::GetFlag(FLAGS_version)) return *std::move(line);
  if (help) {
    std::cout << program.name << program.about << '\n' << FlagsHelp();
  } else {
    std::cout << program.name << ' ' << kVersion << '\n';
  }
  // A text that cannot be written is an error, or a full disk would go
  // unnoticed.
  std::exit(std::cout.flush() ? EXIT_SUCCESS : kWrongCommandLine);
}

}  // namespace verbena::tool
