#include "tests/model/command_line.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace verbena::model {
namespace {

struct CommandLine {
  bool wide = false;
  bool traces = false;
  std::map<std::string, uint8_t> bounds;
  std::set<std::string> unused;  // Keys of `bounds`.
};

CommandLine& Line() {
  static CommandLine& line = *new CommandLine;
  return line;
}

bool ReadBound(absl::string_view argument) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(argument, absl::MaxSplits('=', 1));
  uint32_t value = 0;
  if (!absl::StartsWith(parts.first, "--") ||
      !absl::SimpleAtoi(parts.second, &value) || value > UINT8_MAX) {
    return false;
  }
  const std::string name(parts.first.substr(2));
  Line().bounds[name] = static_cast<uint8_t>(value);
  Line().unused.insert(name);
  return true;
}

}  // namespace

uint8_t Bound(const char* name, uint8_t usual, uint8_t wide) {
  CommandLine& line = Line();
  line.unused.erase(name);
  const auto given = line.bounds.find(name);
  if (given != line.bounds.end()) return given->second;
  return line.wide ? wide : usual;
}

bool ShowsTraces() { return Line().traces; }

bool ReadCommandLine(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const absl::string_view argument = argv[i];
    if (argument == "--wide") {
      Line().wide = true;
    } else if (argument == "--traces") {
      Line().traces = true;
    } else if (!ReadBound(argument)) {
      std::fprintf(stderr,
                   "%s is not --wide, --traces, or a bound such as --calls=3 "
                   "(at most 255)\n",
                   argv[i]);
      return false;
    }
  }
  return true;
}

bool AllBoundsUsed() {
  for (const std::string& name : Line().unused) {
    std::fprintf(stderr, "no model that ran has a bound --%s\n", name.c_str());
  }
  return Line().unused.empty();
}

}  // namespace verbena::model

// Ends with status 2 if the command line is wrong, as all of our programs do.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!verbena::model::ReadCommandLine(argc, argv)) return 2;
  const int status = RUN_ALL_TESTS();
  return verbena::model::AllBoundsUsed() ? status : 2;
}
