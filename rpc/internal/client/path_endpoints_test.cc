#include "rpc/internal/client/path_endpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace verbena::internal {
namespace {

using base::SocketAddress;
using testing::ElementsAre;
using testing::IsEmpty;

SocketAddress At(absl::string_view text) {
  return *SocketAddress::ParseNumeric(text);
}

// A host with one interface in each of the networks 10.N.0.0/16, N being 1, 2
// or 3; it sends to all others through the first. RDMA leads to no address of
// the network 3.
PathFacts Facts(const SocketAddress& address) {
  const std::string host = address.HostString();
  const char network = host[3];
  PathFacts facts;
  facts.local = At(absl::StrCat(
      "10.", network == '2' || network == '3' ? std::string(1, network) : "1",
      ".0.1:0"));
  facts.leads = network != '3';
  return facts;
}

std::vector<std::string> Paths(const std::vector<std::string>& texts,
                               size_t max_paths = 4) {
  Resolution::Endpoint first;
  first.address = At("10.1.0.7:50051");
  first.is_rdma = true;
  std::vector<SocketAddress> addresses;
  for (const std::string& text : texts) addresses.push_back(At(text));
  std::vector<std::string> found;
  for (const Resolution::Endpoint& each :
       ChoosePaths(first, addresses, max_paths, Facts)) {
    EXPECT_TRUE(each.is_rdma);
    found.push_back(each.address.ToString());
  }
  return found;
}

TEST(PathEndpointsTest, GoThroughAnotherInterfaceAtBothEnds) {
  EXPECT_THAT(Paths({"10.1.0.7:50051", "10.2.0.7:50051"}),
              ElementsAre("10.2.0.7:50051"));
}

TEST(PathEndpointsTest, DoNotShareAnInterfaceOfThisHost) {
  EXPECT_THAT(Paths({"10.1.0.8:50051", "172.17.0.1:50051", "10.2.0.7:50051",
                     "10.2.0.8:50051"}),
              ElementsAre("10.2.0.7:50051"));
}

TEST(PathEndpointsTest, StayWithTheFabricInUse) {
  EXPECT_THAT(Paths({"10.3.0.7:50051"}), IsEmpty());
}

TEST(PathEndpointsTest, AreNoMoreThanWanted) {
  EXPECT_THAT(Paths({"10.2.0.7:50051"}, /*max_paths=*/1), IsEmpty());
}

}  // namespace
}  // namespace verbena::internal
