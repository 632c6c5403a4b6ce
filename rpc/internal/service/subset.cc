#include "rpc/internal/service/subset.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/method_hash.h"

namespace verbena::internal {

void ChooseSubset(size_t size, uint64_t seed,
                  std::vector<ServerAddress>* servers) {
  if (size == 0 || servers->size() <= size) return;
  std::vector<std::pair<uint64_t, size_t>> hashes;
  for (size_t i = 0; i < servers->size(); ++i) {
    hashes.emplace_back(
        MethodHash(absl::StrCat(seed, "_", (*servers)[i].address)), i);
  }
  std::nth_element(hashes.begin(), hashes.begin() + size, hashes.end());
  std::vector<ServerAddress> chosen;
  for (size_t i = 0; i < size; ++i) {
    chosen.push_back(std::move((*servers)[hashes[i].second]));
  }
  *servers = std::move(chosen);
}

}  // namespace verbena::internal
