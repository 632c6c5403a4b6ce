// The values of keys in etcd: one server each.

#ifndef VERBENA_RPC_RESOLVERS_ETCD_VALUE_H_
#define VERBENA_RPC_RESOLVERS_ETCD_VALUE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/resolver.h"

namespace verbena::internal {

// Reads a value as etcd_resolver.h has it. INVALID_ARGUMENT names the part that
// is wrong.
absl::StatusOr<ServerAddress> ParseEtcdValue(absl::string_view text);

// Returns the value of a server, in Verbena's form. INVALID_ARGUMENT if
// ParseEtcdValue() would not read back the same.
absl::StatusOr<std::string> MakeEtcdValue(const ServerAddress& server);

}  // namespace verbena::internal

#endif  // VERBENA_RPC_RESOLVERS_ETCD_VALUE_H_
