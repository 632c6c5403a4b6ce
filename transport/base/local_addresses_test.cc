// The host may have networks or none.

#include "transport/base/local_addresses.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace verbena::base {
namespace {

TEST(LocalAddressesTest, LeaveOutWhatNoOtherHostCanUse) {
  for (const SocketAddress& address : InterfaceAddresses()) {
    EXPECT_FALSE(address.empty());
    EXPECT_FALSE(address.IsLoopback()) << address.ToString();
    EXPECT_EQ(address.port(), 0) << address.ToString();
    // Each is an address of this host, so it leads to itself.
    EXPECT_EQ(LocalAddressTo([&] {
                SocketAddress peer = address;
                peer.set_port(9);
                return peer;
              }()),
              address);
  }
}

TEST(LocalAddressesTest, NameTheInterfaceThatLeadsToAPeer) {
  EXPECT_EQ(LocalAddressTo(SocketAddress::Loopback(AF_INET, 9)),
            SocketAddress::Loopback(AF_INET, 0));
  // No datagram socket connects to an address of no family.
  EXPECT_TRUE(LocalAddressTo(SocketAddress()).empty());
}

}  // namespace
}  // namespace verbena::base
