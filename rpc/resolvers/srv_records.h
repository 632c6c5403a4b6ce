// Reads the answer to a question for SRV records (RFC 2782).

#ifndef VERBENA_RPC_RESOLVERS_SRV_RECORDS_H_
#define VERBENA_RPC_RESOLVERS_SRV_RECORDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace verbena::internal {

struct SrvRecord {
  std::string host;
  uint16_t port = 0;
  uint16_t weight = 0;

  friend bool operator==(const SrvRecord&, const SrvRecord&) = default;
};

struct SrvRecords {
  // Those of the lowest priority, in the order of the answer. Empty if the
  // service is "decidedly not available": its record has the target ".".
  std::vector<SrvRecord> records;
  // The least TTL of all records in the answer.
  absl::Duration ttl;
};

// Reads `packet`, which comes from the network. Returns ARES_SUCCESS, or an
// error of c-ares, such as ARES_ENODATA if no record is an SRV record.
int ReadSrvRecords(absl::Span<const uint8_t> packet, SrvRecords& records);

// Returns the least TTL of the records in the answer `packet`; zero if it has
// none, or is malformed.
absl::Duration LeastTtl(absl::Span<const uint8_t> packet);

}  // namespace verbena::internal

#endif  // VERBENA_RPC_RESOLVERS_SRV_RECORDS_H_
