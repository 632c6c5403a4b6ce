// Sets flags of absl::flags from a command line.
//
// absl::ParseCommandLine() would do, but it ends the program with exit code 1
// whatever it finds, --help included, lets a flag be given twice, and knows no
// flag with a value that may be left out.

#ifndef VERBENA_TOOLS_RPC_BENCH_COMMAND_LINE_H_
#define VERBENA_TOOLS_RPC_BENCH_COMMAND_LINE_H_

#include <functional>
#include <map>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace verbena::bench {

// Values of flags that are given without one, by name; a bool is true then.
using ImpliedValues = std::map<std::string, std::string, std::less<>>;

// Sets the flags of the program by `arguments`, which follow its name; hyphens
// in names stand for underscores. Returns the names of those given, in C++.
// Fails with INVALID_ARGUMENT for an unknown flag, one given twice, and a value
// that is missing or that the flag's type refuses; the message says which flag
// it is, what was seen and what would do.
absl::StatusOr<std::set<std::string, std::less<>>> SetFlags(
    absl::Span<const char* const> arguments, const ImpliedValues& implied);

// Every flag of the program with its default and its help, by name.
std::string FlagsHelp();

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_COMMAND_LINE_H_
