#include "rpc/internal/client/path_endpoints.h"

#include <algorithm>

#include "transport/base/local_addresses.h"
#include "transport/device.h"

namespace verbena::internal {
namespace {

using base::SocketAddress;

bool Contains(const std::vector<SocketAddress>& all,
              const SocketAddress& address) {
  return std::find(all.begin(), all.end(), address) != all.end();
}

}  // namespace

std::vector<Resolution::Endpoint> ChoosePaths(
    const Resolution::Endpoint& first,
    const std::vector<SocketAddress>& addresses, size_t max_paths,
    absl::FunctionRef<PathFacts(const SocketAddress&)> facts) {
  std::vector<Resolution::Endpoint> paths;
  std::vector<SocketAddress> remote = {first.address};
  std::vector<SocketAddress> local = {facts(first.address).local};
  for (const SocketAddress& address : addresses) {
    if (remote.size() >= max_paths) break;
    if (Contains(remote, address)) continue;
    const PathFacts of = facts(address);
    if (!of.leads || of.local.empty() || Contains(local, of.local)) continue;
    remote.push_back(address);
    local.push_back(of.local);
    Resolution::Endpoint path = first;
    path.address = address;
    paths.push_back(path);
  }
  return paths;
}

std::vector<Resolution::Endpoint> FindPaths(
    const Resolution::Endpoint& first,
    const std::vector<SocketAddress>& addresses, size_t max_paths) {
  return ChoosePaths(
      first, addresses, max_paths, [&first](const SocketAddress& address) {
        PathFacts facts;
        facts.local = base::LocalAddressTo(address);
        SocketAddress host = address;
        host.set_port(0);
        // A route to an address of this host begins at that address.
        facts.leads =
            facts.local != host &&
            (!first.is_rdma ||
             transport::IsRdma(transport::ChooseProvider(address, "")));
        return facts;
      });
}

}  // namespace verbena::internal
