// Flags of programs whose exit status says something.

#ifndef VERBENA_TOOLS_COMMAND_LINE_PARSE_FLAGS_H_
#define VERBENA_TOOLS_COMMAND_LINE_PARSE_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace verbena::tool {

// Sets absl's flags by the command line, and returns its other words, without
// the name of the program. INVALID_ARGUMENT, for the user, if a flag is not
// known or its value is none. absl's own parser ends the program then, with
// status 1, to which these programs give another meaning; after --help, too.
// And of a list that is given twice it keeps only the second.
absl::StatusOr<std::vector<std::string>> ParseFlags(int argc, char** argv);

// What --help says of the flags that the program has: name, default, meaning.
std::string FlagsHelp();

}  // namespace verbena::tool

#endif  // VERBENA_TOOLS_COMMAND_LINE_PARSE_FLAGS_H_
