// Prefers servers that are near.

#ifndef VERBENA_RPC_INTERNAL_SERVICE_NEAREST_H_
#define VERBENA_RPC_INTERNAL_SERVICE_NEAREST_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "rpc/balancer.h"
#include "rpc/resolver.h"

namespace verbena::internal {

// The policy nearest, above another policy, of which each distance has its own
// balancer: this host by shared memory, the same sub-zone, zone, region, and
// the rest. A call goes to the nearest servers there are, unless the one that
// is picked there has too many calls open: then to the next distance. If all
// are as busy, the nearest have it.
class Nearest final : public Balancer {
 public:
  struct Options {
    Locality here;
    // The calls of this channel that a server has open before calls go further
    // away.
    uint32_t max_open_calls = 100;
  };
  static constexpr size_t kDistances = 5;
  using Children = std::array<std::unique_ptr<Balancer>, kDistances>;

  // REQUIRES: the children are balancers of one policy.
  Nearest(Options options, Children children);

  void SetServers(absl::Span<Server* const> servers) override;
  size_t Pick(const Call& call) override;
  bool wants_results() const override { return wants_results_; }
  void OnResult(size_t position, const Result& result) override;

 private:
  struct Ring {
    std::unique_ptr<Balancer> balancer;
    std::vector<size_t> positions = {};  // In servers_.

    // A policy of the user may pick what is not there.
    size_t PositionAt(size_t place) const {
      return positions[place < positions.size() ? place : 0];
    }
  };

  size_t DistanceOf(const Server& server) const;

  const Options options_;
  std::array<Ring, kDistances> rings_;
  const bool wants_results_;
  std::vector<Server*> servers_;
  // By position: the ring, and the position there.
  std::vector<std::pair<size_t, size_t>> place_;
  std::vector<Ring*> used_;  // Those that have servers, the nearest first.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVICE_NEAREST_H_
