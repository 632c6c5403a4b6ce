// Reads targets of the scheme "dns".

#ifndef VERBENA_RPC_RESOLVERS_DNS_TARGET_H_
#define VERBENA_RPC_RESOLVERS_DNS_TARGET_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "rpc/resolver.h"

namespace verbena::internal {

// A question to DNS.
struct DnsTarget {
  // A name, or an IP address without brackets.
  std::string name;
  // 0: SRV records have the ports.
  uint16_t port = 0;
  // "10.0.0.53:53" or "[fd00::53]:53", the DNS server to ask. Empty: those of
  // the host.
  std::string server = {};

  bool srv() const { return port == 0; }
};

// Returns INVALID_ARGUMENT, which says which form a target must have, if
// `target` has another.
absl::StatusOr<DnsTarget> ParseDnsTarget(const Target& target);

}  // namespace verbena::internal

#endif  // VERBENA_RPC_RESOLVERS_DNS_TARGET_H_
