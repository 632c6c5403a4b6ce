// The command lines of all tools: absl's flags, read in one way.

#ifndef VERBENA_TOOLS_COMMAND_LINE_PARSE_FLAGS_H_
#define VERBENA_TOOLS_COMMAND_LINE_PARSE_FLAGS_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace verbena::tool {

// Exit status of every tool whose command line is wrong.
inline constexpr int kWrongCommandLine = 2;

// Values of flags that may stand without one, by the names of the flags.
using ImpliedValues = std::map<std::string, std::string>;

struct CommandLine {
  std::vector<std::string> words;  // Arguments that are not flags.
  std::set<std::string> given;     // Names of the flags that were given.
};

// Sets absl's flags by the command line. If a flag is unknown or its value is
// invalid, fails with INVALID_ARGUMENT and a message for the user.
//
// Hyphens in names stand for underscores. Without "=" a bool is true, or false
// after "no"; a flag of `implied` has that value; any other flag takes the next
// argument. If a list is given several times, its flag gets the parts of all of
// them; any other flag keeps the last value.
//
// absl's own parser ends the program with status 1 after a wrong flag and after
// --help, and the tools give that status another meaning.
absl::StatusOr<CommandLine> ParseFlags(int argc, char** argv,
                                       const ImpliedValues& implied = {});

// Returns the text of --help about all flags of the program: their names,
// defaults and meanings.
std::string FlagsHelp();

// A program as its --help and --version describe it.
struct Program {
  std::string name;
  std::string about;         // Precedes the flags in --help.
  bool takes_words = false;  // Otherwise every argument is a flag.
  ImpliedValues implied = {};
};

// Does what the main() of every tool begins with: parses the flags. Ends the
// program with status 0 after --help or --version, and with kWrongCommandLine
// and a message if the command line is wrong.
CommandLine ReadCommandLine(int argc, char** argv, const Program& program);

}  // namespace verbena::tool

#endif  // VERBENA_TOOLS_COMMAND_LINE_PARSE_FLAGS_H_
