// Sends all calls with a key to one server.

#ifndef VERBENA_RPC_INTERNAL_SERVICE_RING_HASH_H_
#define VERBENA_RPC_INTERNAL_SERVICE_RING_HASH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "rpc/balancer.h"

namespace verbena::internal {

// The policy ring_hash (gRPC's proposals A42 and A76): each server has points
// on a ring, by its weight. A call goes to the next point behind the hash of
// its key. When a server leaves, its keys go to all others, and the keys of
// those stay where they are.
//
// All clients of a service agree, whatever their machines, because the hashes
// depend on the addresses and the keys alone.
class RingHash final : public Balancer {
 public:
  struct Options {
    // The points of a server whose weight is the common divisor of all.
    uint64_t unit_points = 256;
    // The points of all servers together; each has at least one.
    uint64_t max_points = 65536;
    // The key of the metadata whose first value is hashed. Calls without it,
    // and all if this is empty, go anywhere.
    std::string metadata_key;
  };

  explicit RingHash(Options options) : options_(std::move(options)) {}

  void SetServers(absl::Span<Server* const> servers) override;
  size_t Pick(const Call& call) override;

 private:
  struct Point {
    uint64_t hash;
    uint32_t position;  // The server's.
  };

  const Options options_;
  std::vector<Point> ring_;  // Sorted.
  uint64_t anywhere_ = 0;    // The place of the last call without a key.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVICE_RING_HASH_H_
