#include "rpc/internal/service/ring_hash.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "proto/method_hash.h"

namespace verbena::internal {
namespace {

// The golden ratio as a part of 2^64: its multiples, cut to 64 bits, lie
// evenly.
constexpr uint64_t kGoldenStep = 0x9e3779b97f4a7c15;

}  // namespace

// The points of a server do not depend on how many others there are, unless the
// ring would be too large: else a server that leaves would move keys of others.
void RingHash::SetServers(absl::Span<Server* const> servers) {
  ring_.clear();
  uint64_t unit = 0;
  double sum = 0;
  for (const Server* server : servers) {
    unit = std::gcd(unit, server->address().weight);
    sum += server->address().weight;
  }
  const double a_weight =
      std::min(static_cast<double>(options_.unit_points) / unit,
               static_cast<double>(options_.max_points) / sum);
  for (uint32_t position = 0; position < servers.size(); ++position) {
    const ServerAddress& address = servers[position]->address();
    const int points =
        std::max(1, static_cast<int>(std::lround(address.weight * a_weight)));
    for (int index = 0; index < points; ++index) {
      ring_.push_back(
          {MethodHash(absl::StrCat(address.address, "_", index)), position});
    }
  }
  std::sort(ring_.begin(), ring_.end(), [](const Point& a, const Point& b) {
    return std::tie(a.hash, a.position) < std::tie(b.hash, b.position);
  });
}

size_t RingHash::Pick(const Call& call) {
  const auto found = call.metadata->find(options_.metadata_key);
  const uint64_t hash = found == call.metadata->end()
                            ? (anywhere_ += kGoldenStep)
                            : MethodHash(found->second);
  const auto point = std::lower_bound(
      ring_.begin(), ring_.end(), hash,
      [](const Point& each, uint64_t wanted) { return each.hash < wanted; });
  return point == ring_.end() ? ring_.front().position : point->position;
}

}  // namespace verbena::internal
