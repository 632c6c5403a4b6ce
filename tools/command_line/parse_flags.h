// Flags of programs whose exit status has a meaning.

#ifndef VERBENA_TOOLS_COMMAND_LINE_PARSE_FLAGS_H_
#define VERBENA_TOOLS_COMMAND_LINE_PARSE_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace verbena::tool {

// Sets absl's flags by the command line, and returns its other words, without
// the name of the program. If a flag is unknown or its value is invalid, fails
// with INVALID_ARGUMENT and a message for the user. If a list is given several
// times, its flag gets the parts of all of them.
//
// absl's own parser ends the program with status 1 after a wrong flag and after
// --help, and these programs give that status another meaning. If a list is
// given twice, absl keeps only the second one.
absl::StatusOr<std::vector<std::string>> ParseFlags(int argc, char** argv);

// Returns the text of --help about all flags of the program: their names,
// defaults and meanings.
std::string FlagsHelp();

}  // namespace verbena::tool

#endif  // VERBENA_TOOLS_COMMAND_LINE_PARSE_FLAGS_H_
