#include "rpc/internal/service/nearest.h"

namespace verbena::internal {

Nearest::Nearest(Options options, Children children)
    : options_(std::move(options)),
      wants_results_(children[0]->wants_results()) {
  for (size_t i = 0; i < kDistances; ++i) {
    rings_[i].balancer = std::move(children[i]);
  }
}

// Parts that are unknown are no ground to call a server near.
size_t Nearest::DistanceOf(const Server& server) const {
  if (server.same_host()) return 0;
  const Locality& here = options_.here;
  const Locality& there = server.address().locality;
  if (here.region != there.region) return 4;
  if (here.zone.empty() || here.zone != there.zone) {
    return here.region.empty() ? 4 : 3;
  }
  return here.sub_zone.empty() || here.sub_zone != there.sub_zone ? 2 : 1;
}

void Nearest::SetServers(absl::Span<Server* const> servers) {
  servers_.assign(servers.begin(), servers.end());
  place_.clear();
  std::array<std::vector<Server*>, kDistances> shares;
  for (Ring& ring : rings_) ring.positions.clear();
  for (size_t i = 0; i < servers_.size(); ++i) {
    const size_t distance = DistanceOf(*servers_[i]);
    place_.emplace_back(distance, shares[distance].size());
    shares[distance].push_back(servers_[i]);
    rings_[distance].positions.push_back(i);
  }
  used_.clear();
  for (size_t i = 0; i < kDistances; ++i) {
    rings_[i].balancer->SetServers(shares[i]);
    if (!shares[i].empty()) used_.push_back(&rings_[i]);
  }
}

size_t Nearest::Pick(const Call& call) {
  size_t nearest = 0;
  for (size_t i = 0; i < used_.size(); ++i) {
    const size_t place = used_[i]->balancer->Pick(call);
    const size_t picked = used_[i]->PositionAt(place);
    if (servers_[picked]->open_calls() < options_.max_open_calls) return picked;
    if (i == 0) nearest = picked;
  }
  return nearest;
}

void Nearest::OnResult(size_t position, const Result& result) {
  const auto [distance, at] = place_[position];
  rings_[distance].balancer->OnResult(at, result);
}

}  // namespace verbena::internal
