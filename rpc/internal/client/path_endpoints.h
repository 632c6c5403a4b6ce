// Finds out by which other addresses of a server a channel can reach it.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_PATH_ENDPOINTS_H_
#define VERBENA_RPC_INTERNAL_CLIENT_PATH_ENDPOINTS_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "rpc/internal/client/resolution.h"
#include "transport/base/socket_address.h"

namespace verbena::internal {

// Facts that this host has about an address of a server.
struct PathFacts {
  // The address from which this host sends there; empty if it does not.
  base::SocketAddress local;
  // Whether the fabric that is in use leads there, and the address is not one
  // of this host, which may have the same by chance.
  bool leads = false;
};

// Returns endpoints at some of `addresses`, at most `max_paths` together with
// `first`, which is in use. They have each address of the server once, and each
// local address once, so that each path has a network interface of its own at
// both ends. `facts` is asked for an address if the answer matters.
std::vector<Resolution::Endpoint> ChoosePaths(
    const Resolution::Endpoint& first,
    const std::vector<base::SocketAddress>& addresses, size_t max_paths,
    absl::FunctionRef<PathFacts(const base::SocketAddress&)> facts);

// ChoosePaths() with the facts of this host. May block for as long as resolving
// the addresses takes.
std::vector<Resolution::Endpoint> FindPaths(
    const Resolution::Endpoint& first,
    const std::vector<base::SocketAddress>& addresses, size_t max_paths);

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_PATH_ENDPOINTS_H_
