// Targets of the form "etcd://host:port,host:port/prefix", and options.

#ifndef VERBENA_RPC_RESOLVERS_ETCD_TARGET_H_
#define VERBENA_RPC_RESOLVERS_ETCD_TARGET_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/resolver.h"
#include "rpc/resolvers/etcd_options.h"

namespace verbena::internal {

// The name under a service's prefix that is no server, but its service config.
inline constexpr absl::string_view kEtcdConfigName = "service_config";

struct EtcdTarget {
  // Empty: those of the options.
  std::vector<std::string> end_points;
  // Without the slash that ends it.
  std::string prefix;
};

// INVALID_ARGUMENT says what is wrong with the target.
absl::StatusOr<EtcdTarget> ParseEtcdTarget(const Target& target);

// INVALID_ARGUMENT names the first option that is wrong, and its bounds.
absl::Status CheckEtcdOptions(const EtcdOptions& options);

// Whether `text` is "host:port" or "[ipv6]:port".
bool IsHostAndPort(absl::string_view text);

// Returns the end of the range of keys that begin with `prefix`/.
std::string EtcdRangeEnd(absl::string_view prefix);

}  // namespace verbena::internal

#endif  // VERBENA_RPC_RESOLVERS_ETCD_TARGET_H_
