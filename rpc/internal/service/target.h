// Reads the target of a channel.

#ifndef VERBENA_RPC_INTERNAL_SERVICE_TARGET_H_
#define VERBENA_RPC_INTERNAL_SERVICE_TARGET_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "rpc/resolver.h"

namespace verbena::internal {

// Returns the parts of `text` if it has the form of a URI, as RFC 3986 has it;
// nothing if not. "localhost:7471" has the form, too: what is behind the colon
// of an address is a path. So the caller looks whether the scheme is known.
std::optional<Target> ParseTarget(absl::string_view text);

// Returns the host of "host:port" or "[ipv6]:port", without brackets; all of
// `address` if it has no port.
absl::string_view HostOf(absl::string_view address);

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVICE_TARGET_H_
