#include "transport/soft/cm/cm_endpoint.h"

#include <gtest/gtest.h>

namespace verbena::soft {
namespace {

TEST(CmEndpointTest, HoldsItsAddressesWhereUsersReadThem) {
  CmEndpoint endpoint;
  EXPECT_TRUE(endpoint.Local().empty());
  endpoint.SetLocal(base::SocketAddress::Loopback(AF_INET, 5));
  endpoint.SetPeer(base::SocketAddress::Loopback(AF_INET6, 6));
  EXPECT_EQ(endpoint.route.addr.src_sin.sin_port, htons(5));
  EXPECT_EQ(endpoint.route.addr.dst_sin6.sin6_port, htons(6));
  EXPECT_EQ(endpoint.Peer().ToString(), "[::1]:6");
}

TEST(CmEndpointDeathTest, RefusesStatesOutOfOrder) {
  EndpointsMutex mutex;
  const EndpointsLock lock(mutex);
  CmEndpoint endpoint;
  EXPECT_DEATH(endpoint.Transition(CmState::kEstablished),
               "idle to established");
}

}  // namespace
}  // namespace verbena::soft
