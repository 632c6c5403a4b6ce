// Takes one server after the other.

#ifndef VERBENA_RPC_INTERNAL_SERVICE_ROUND_ROBIN_H_
#define VERBENA_RPC_INTERNAL_SERVICE_ROUND_ROBIN_H_

#include <cstddef>
#include <cstdint>

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

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVICE_ROUND_ROBIN_H_
