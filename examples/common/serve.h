// Runs a server until somebody stops the program.

#ifndef VERBENA_EXAMPLES_COMMON_SERVE_H_
#define VERBENA_EXAMPLES_COMMON_SERVE_H_

#include <functional>
#include <memory>
#include <string>

#include "rpc/server_builder.h"

namespace examples {

// Tells clients of a server that listens on `address`, until the result is
// destroyed.
using Announce = std::function<std::shared_ptr<void>(const std::string&)>;

// Builds and starts the server, prints where it listens, and serves until the
// program gets SIGINT or SIGTERM. Then open calls have five seconds to end.
// Returns the exit code. REQUIRES: the program has started no thread yet.
int Serve(verbena::ServerBuilder& builder, const Announce& announce = nullptr);

}  // namespace examples

#endif  // VERBENA_EXAMPLES_COMMON_SERVE_H_
