// The servers of a large service that one of its clients connects to.

#ifndef VERBENA_RPC_INTERNAL_SERVICE_SUBSET_H_
#define VERBENA_RPC_INTERNAL_SERVICE_SUBSET_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rpc/resolver.h"

namespace verbena::internal {

// Leaves `size` of the servers, or all if `size` is 0 or there are not more.
//
// As gRPC's proposal A68 has it: each server's address is hashed with `seed`,
// and the smallest hashes stay. So the choice is the same as long as the seed
// is, a server that leaves or comes changes one place of it at most, and
// clients with other seeds choose others.
void ChooseSubset(size_t size, uint64_t seed,
                  std::vector<ServerAddress>* servers);

// Chooses for the client of that number, of clients that count from 0. Leaves
// from half of `size` to `size` servers, so that those have equal numbers of
// clients, to within one. A server that leaves or comes changes two places at
// most, but all of them where the number of servers passes `size` times a power
// of two.
void ChooseNumberedSubset(size_t size, uint64_t number,
                          std::vector<ServerAddress>* servers);

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVICE_SUBSET_H_
