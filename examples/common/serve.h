// Runs a server until somebody stops the program.

#ifndef VERBENA_EXAMPLES_COMMON_SERVE_H_
#define VERBENA_EXAMPLES_COMMON_SERVE_H_

#include "rpc/server_builder.h"

namespace examples {

// Builds and starts the server, prints where it listens, and serves until the
// program gets SIGINT or SIGTERM. Then open calls have five seconds to end.
// Returns the exit code. REQUIRES: the program has started no thread yet.
int Serve(verbena::ServerBuilder& builder);

}  // namespace examples

#endif  // VERBENA_EXAMPLES_COMMON_SERVE_H_
