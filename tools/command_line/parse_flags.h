// Flags of programs whose exit status says something.

#ifndef VERBENA_TOOLS_COMMAND_LINE_PARSE_FLAGS_H_
#define VERBENA_TOOLS_COMMAND_LINE_PARSE_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace verbena::tool {

// Sets absl's flags by the command line, and returns its other words, without
// the name of the program. INVALID_ARGUMENT, for the user, if a flag is not
// known or its value is none. A list that is given several times has all of its
// parts.
//
// absl's own parser would end the program with status 1, both where a flag is
// wrong and after --help; these programs give that status another meaning. Of a
// list that is given twice it would keep the second alone.
absl::StatusOr<std::vector<std::string>> ParseFlags(int argc, char** argv);

// What --help says of the flags that the program has: name, default, meaning.
std::string FlagsHelp();

}  // namespace verbena::tool

#endif  // VERBENA_TOOLS_COMMAND_LINE_PARSE_FLAGS_H_
