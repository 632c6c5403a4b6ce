// The less busy one of a few.

#ifndef VERBENA_RPC_INTERNAL_SERVICE_LEAST_REQUEST_H_
#define VERBENA_RPC_INTERNAL_SERVICE_LEAST_REQUEST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/types/span.h"
#include "rpc/balancer.h"

namespace verbena::internal {

// The policy least_request (gRPC's proposal A48): draws some servers, and takes
// the one that has the least calls of this channel open. That is nearly as good
// as to look at all, and many clients do not run to the same one.
class LeastRequest final : public Balancer {
 public:
  LeastRequest(int choices, uint64_t seed)
      : choices_(choices), random_(static_cast<uint32_t>(seed)) {}

  void SetServers(absl::Span<Server* const> servers) override {
    servers_.assign(servers.begin(), servers.end());
  }
  size_t Pick(const Call& /*call*/) override {
    size_t least = Draw(servers_.size());
    if (servers_.size() == 1) return least;
    for (int drawn = 1; drawn < choices_; ++drawn) {
      // Any but the one it is compared with. Else a busy server of n has a call
      // of n * n for certain, which may be more than it can do.
      size_t other = Draw(servers_.size() - 1);
      if (other >= least) ++other;
      if (servers_[other]->open_calls() < servers_[least]->open_calls()) {
        least = other;
      }
    }
    return least;
  }

 private:
  // A product in place of a division, which costs as much as all the rest.
  size_t Draw(size_t below) {
    const uint64_t drawn = random_() - std::minstd_rand::min();
    return static_cast<size_t>(drawn * below >> 31);
  }

  const int choices_;
  std::minstd_rand random_;  // Draws below 2^31.
  std::vector<Server*> servers_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVICE_LEAST_REQUEST_H_
