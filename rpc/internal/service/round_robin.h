// Takes one server after the other, each as often as its weight has it.

#ifndef VERBENA_RPC_INTERNAL_SERVICE_ROUND_ROBIN_H_
#define VERBENA_RPC_INTERNAL_SERVICE_ROUND_ROBIN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "rpc/balancer.h"

namespace verbena::internal {

// The policy round_robin. Begins anywhere, so that the clients of a service do
// not all begin at its first server.
class RoundRobin final : public Balancer {
 public:
  explicit RoundRobin(uint64_t seed) : next_(seed) {}

  void SetServers(absl::Span<Server* const> servers) override {
    size_ = servers.size();
    next_ %= size_ == 0 ? 1 : size_;
  }
  size_t Pick(const Call& /*call*/) override {
    const size_t picked = next_;
    next_ = picked + 1 < size_ ? picked + 1 : 0;
    return picked;
  }

 private:
  size_t next_;
  size_t size_ = 0;
};

// The policy weighted_round_robin, by the weights that the resolver gives.
//
// Goes round like RoundRobin, and leaves a server out in so many of its turns
// as its weight is below the largest one: the turns that a server has had,
// times its share of the largest weight, rises by one where it is taken. A
// server is begun in the middle of its share, so that those of equal weight are
// not all left out in the same round.
class WeightedRoundRobin final : public Balancer {
 public:
  explicit WeightedRoundRobin(uint64_t seed) : turn_(seed >> 32) {}

  void SetServers(absl::Span<Server* const> servers) override;
  size_t Pick(const Call& call) override;

 private:
  // The largest weight, to which the others are scaled.
  static constexpr uint64_t kFull = 1 << 12;

  std::vector<uint32_t> weights_;  // Parts of kFull, which at least one has.
  uint64_t turn_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVICE_ROUND_ROBIN_H_
