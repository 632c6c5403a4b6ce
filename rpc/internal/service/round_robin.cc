#include "rpc/internal/service/round_robin.h"

#include <algorithm>

namespace verbena::internal {

void WeightedRoundRobin::SetServers(absl::Span<Server* const> servers) {
  uint64_t largest = 1;
  for (const Server* server : servers) {
    largest = std::max<uint64_t>(largest, server->address().weight);
  }
  weights_.clear();
  for (const Server* server : servers) {
    const uint64_t weight = server->address().weight * kFull / largest;
    weights_.push_back(static_cast<uint32_t>(std::max<uint64_t>(weight, 1)));
  }
}

// The loop ends after one round, because a server with the full weight is taken
// in every turn.
size_t WeightedRoundRobin::Pick(const Call& /*call*/) {
  for (;;) {
    const size_t position = turn_ % weights_.size();
    const uint64_t round = turn_ / weights_.size();
    ++turn_;
    const uint64_t weight = weights_[position];
    const uint64_t begin = position * kFull / weights_.size();
    if ((round * weight + begin) % kFull >= kFull - weight) return position;
  }
}

}  // namespace verbena::internal
