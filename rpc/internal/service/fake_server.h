// A server for the tests of balancers.

#ifndef VERBENA_RPC_INTERNAL_SERVICE_FAKE_SERVER_H_
#define VERBENA_RPC_INTERNAL_SERVICE_FAKE_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/balancer.h"
#include "rpc/metadata.h"
#include "rpc/resolver.h"

namespace verbena::internal {

class FakeServer final : public Balancer::Server {
 public:
  explicit FakeServer(ServerAddress address) : address_(std::move(address)) {}
  FakeServer(std::string address, uint32_t weight)
      : address_{.address = std::move(address), .weight = weight} {}
  const ServerAddress& address() const override { return address_; }
  uint32_t open_calls() const override { return open; }
  bool same_host() const override { return here; }

  uint32_t open = 0;
  bool here = false;

 private:
  const ServerAddress address_;
};

// A balancer's servers, with the addresses 10.0.0.0:7471 and on.
class BalancedServers {
 public:
  explicit BalancedServers(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      servers.push_back(std::make_unique<FakeServer>(
          absl::StrCat("10.0.0.", i, ":7471"), /*weight=*/1));
    }
  }
  void Tell(Balancer* balancer) const {
    std::vector<Balancer::Server*> pointers;
    for (const auto& server : servers) pointers.push_back(server.get());
    balancer->SetServers(pointers);
  }
  // How often each server is picked.
  std::vector<int> Picks(Balancer* balancer, int count) const {
    const Metadata metadata;
    std::vector<int> picks(servers.size());
    for (int i = 0; i < count; ++i) {
      ++picks.at(balancer->Pick({"a.B/C", &metadata}));
    }
    return picks;
  }

  std::vector<std::unique_ptr<FakeServer>> servers;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVICE_FAKE_SERVER_H_
