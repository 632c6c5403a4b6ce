#include "rpc/internal/service/subset.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/method_hash.h"

namespace verbena::internal {
namespace {

// Puts the servers into an order of which each seed has another one.
void Shuffle(uint64_t seed, std::vector<ServerAddress>* servers) {
  std::vector<std::pair<uint64_t, size_t>> hashes;
  for (size_t i = 0; i < servers->size(); ++i) {
    hashes.emplace_back(
        MethodHash(absl::StrCat(seed, "_", (*servers)[i].address)), i);
  }
  std::sort(hashes.begin(), hashes.end());
  std::vector<ServerAddress> shuffled;
  for (const auto& [hash, i] : hashes) {
    shuffled.push_back(std::move((*servers)[i]));
  }
  *servers = std::move(shuffled);
}

}  // namespace

void ChooseSubset(size_t size, uint64_t seed,
                  std::vector<ServerAddress>* servers) {
  if (size == 0 || servers->size() <= size) return;
  Shuffle(seed, servers);
  servers->resize(size);
}

// Deals all servers out to a group of clients, anew for each group. Each server
// has one client of a group, and a server that comes moves the bounds of the
// shares by one place at most.
void ChooseNumberedSubset(size_t size, uint64_t number,
                          std::vector<ServerAddress>* servers) {
  if (size == 0 || servers->size() <= size) return;
  const size_t count = servers->size();
  const size_t group =
      std::min(std::bit_ceil((count + size - 1) / size), count);
  Shuffle(number / group, servers);
  const size_t share = number % group;
  servers->resize((share + 1) * count / group);
  servers->erase(servers->begin(), servers->begin() + share * count / group);
}

}  // namespace verbena::internal
