#include "transport/soft/address/cm_address.h"

#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "transport/soft/base/other_user.h"
#include "transport/soft/base/unix_name.h"

namespace verbena::soft {
namespace {

using base::SocketAddress;

SocketAddress Address(absl::string_view text) {
  return *SocketAddress::ParseNumeric(text);
}

// Sockets that listen as long as the test runs.
class CmAddressTest : public testing::Test {
 protected:
  // Opens a socket that listens. Returns 0 or the errno.
  int Listen(absl::string_view text,
             BindPurpose purpose = BindPurpose::kListen) {
    SocketAddress address = Address(text);
    address.set_port(port_);
    base::UniqueFd socket;
    const int error = OpenBoundSocket(address, purpose, socket);
    if (error != 0) return error;
    EXPECT_EQ(::listen(socket.get(), 16), 0);
    listeners_.push_back(std::move(socket));
    return 0;
  }

  // Connects from a new socket at 127.0.0.1 or ::1. Returns 0 or the errno.
  int Connect(absl::string_view text) {
    SocketAddress to = Address(text);
    to.set_port(port_);
    SocketAddress from = SocketAddress::Loopback(to.family(), 0);
    base::UniqueFd socket;
    EXPECT_EQ(OpenBoundSocket(from, BindPurpose::kConnect, socket), 0);
    return ConnectSocket(to, PeerUsers(), socket);
  }

  // A port that nobody uses on any address.
  static uint16_t FreePort() {
    SocketAddress address = SocketAddress::Any(AF_INET6, 0);
    base::UniqueFd socket;
    EXPECT_EQ(OpenBoundSocket(address, BindPurpose::kListen, socket), 0);
    return address.port();
  }

  const uint16_t port_ = FreePort();
  std::vector<base::UniqueFd> listeners_;
};

TEST_F(CmAddressTest, ChoosesAFreePort) {
  SocketAddress first = SocketAddress::Loopback(AF_INET, 0);
  SocketAddress second = first;
  base::UniqueFd first_socket;
  base::UniqueFd second_socket;
  ASSERT_EQ(OpenBoundSocket(first, BindPurpose::kListen, first_socket), 0);
  ASSERT_EQ(OpenBoundSocket(second, BindPurpose::kListen, second_socket), 0);
  EXPECT_GE(first.port(), 32768);
  EXPECT_NE(first.port(), second.port());
}

TEST_F(CmAddressTest, ReachesAListenerAtItsAddressOnly) {
  ASSERT_EQ(Listen("127.0.0.1:0"), 0);
  EXPECT_EQ(Connect("127.0.0.1:0"), 0);
  EXPECT_EQ(Connect("127.0.0.2:0"), ECONNREFUSED);
  EXPECT_EQ(Connect("[::1]:0"), ECONNREFUSED);
}

TEST_F(CmAddressTest, ReachesAWildcardAtEveryAddressOfItsFamily) {
  ASSERT_EQ(Listen("0.0.0.0:0"), 0);
  EXPECT_EQ(Connect("127.0.0.1:0"), 0);
  EXPECT_EQ(Connect("127.0.0.2:0"), 0);
  EXPECT_EQ(Connect("[::1]:0"), ECONNREFUSED);
}

TEST_F(CmAddressTest, ReachesAnIpv6WildcardOverBothFamilies) {
  ASSERT_EQ(Listen("[::]:0"), 0);
  EXPECT_EQ(Connect("[::1]:0"), 0);
  EXPECT_EQ(Connect("127.0.0.1:0"), 0);
}

// Programs set RDMA_OPTION_ID_AFONLY without looking at the family.
TEST_F(CmAddressTest, ReachesAWildcardOfIpv4WhateverWasSaidOfIpv6) {
  ASSERT_EQ(Listen("0.0.0.0:0", BindPurpose::kListenIpv6Only), 0);
  EXPECT_EQ(Connect("127.0.0.1:0"), 0);
  EXPECT_EQ(Connect("[::1]:0"), ECONNREFUSED);
}

TEST_F(CmAddressTest, ReachesAnIpv6OnlyWildcardOverIpv6Only) {
  ASSERT_EQ(Listen("[::]:0", BindPurpose::kListenIpv6Only), 0);
  EXPECT_EQ(Connect("[::1]:0"), 0);
  EXPECT_EQ(Connect("127.0.0.1:0"), ECONNREFUSED);
}

TEST_F(CmAddressTest, RefusesASecondListenerOfTheSameAddress) {
  ASSERT_EQ(Listen("127.0.0.1:0"), 0);
  EXPECT_EQ(Listen("127.0.0.1:0"), EADDRINUSE);
  EXPECT_EQ(Listen("127.0.0.2:0"), 0);
  EXPECT_EQ(Listen("[::1]:0"), 0);
}

TEST_F(CmAddressTest, RefusesAWildcardOverAnAddress) {
  ASSERT_EQ(Listen("127.0.0.1:0"), 0);
  EXPECT_EQ(Listen("0.0.0.0:0"), EADDRINUSE);
  EXPECT_EQ(Listen("[::]:0"), EADDRINUSE);
  EXPECT_EQ(Listen("[::]:0", BindPurpose::kListenIpv6Only), 0);
}

TEST_F(CmAddressTest, RefusesAnAddressUnderAWildcard) {
  ASSERT_EQ(Listen("[::]:0"), 0);
  EXPECT_EQ(Listen("127.0.0.1:0"), EADDRINUSE);
  EXPECT_EQ(Listen("0.0.0.0:0"), EADDRINUSE);
  EXPECT_EQ(Listen("[::1]:0"), EADDRINUSE);
}

TEST_F(CmAddressTest, FreesTheAddressWhileOldConnectionsLive) {
  ASSERT_EQ(Listen("127.0.0.1:0"), 0);
  ASSERT_EQ(Connect("127.0.0.1:0"), 0);
  const base::UniqueFd old(
      ::accept4(listeners_[0].get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(old.valid());
  listeners_.clear();
  EXPECT_EQ(Listen("0.0.0.0:0"), 0);
}

TEST_F(CmAddressTest, KnowsTheAddressOfThePeer) {
  ASSERT_EQ(Listen("127.0.0.1:0"), 0);
  SocketAddress from = SocketAddress::Loopback(AF_INET, 0);
  base::UniqueFd client;
  ASSERT_EQ(OpenBoundSocket(from, BindPurpose::kConnect, client), 0);
  SocketAddress to = SocketAddress::Loopback(AF_INET, port_);
  ASSERT_EQ(ConnectSocket(to, PeerUsers(), client), 0);
  const base::UniqueFd server(
      ::accept4(listeners_[0].get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_EQ(PeerOf(server.get()), from);
  EXPECT_EQ(PeerOf(client.get()), to);
}

// Anybody can bind the name that is tried first.
TEST_F(CmAddressTest, WhoListensForAnotherUserIsPassedOver) {
  if (!CanBeOtherUser()) GTEST_SKIP() << "only root can be another user";
  const SocketAddress to = SocketAddress::Loopback(AF_INET, port_);
  SocketAddress at = to;
  base::UniqueFd others;
  ASSERT_EQ(OpenBoundSocket(at, BindPurpose::kConnect, others), 0);
  {
    const OtherUser other_user;
    ASSERT_EQ(::listen(others.get(), 16), 0);
  }
  SocketAddress from = SocketAddress::Loopback(AF_INET, 0);
  base::UniqueFd client;
  ASSERT_EQ(OpenBoundSocket(from, BindPurpose::kConnect, client), 0);
  EXPECT_EQ(ConnectSocket(to, PeerUsers(), client), EACCES);
  SocketAddress any = SocketAddress::Any(AF_INET, port_);
  base::UniqueFd ours;
  ASSERT_EQ(OpenBoundSocket(any, BindPurpose::kConnect, ours), 0);
  ASSERT_EQ(::listen(ours.get(), 16), 0);
  ASSERT_EQ(ConnectSocket(to, PeerUsers(), client), 0);
  const base::UniqueFd server(
      ::accept4(ours.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  ASSERT_TRUE(server.valid());
  EXPECT_EQ(PeerOf(server.get()), from);
  // If that user is allowed, it is not passed over.
  base::UniqueFd trusting(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(ConnectSocket(to, PeerUsers("54321"), trusting), 0);
  EXPECT_EQ(PeerOf(trusting.get()), to);
}

TEST_F(CmAddressTest, BelievesNoForeignName) {
  ASSERT_EQ(Listen("127.0.0.1:0"), 0);
  for (const std::string& name :
       {std::string(), std::string("\0other/127.0.0.1:1", 18),
        std::string("\0verbena-soft/localhost:1", 25),
        std::string("\0verbena-soft/", 14)}) {
    base::UniqueFd client(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!name.empty()) {
      const UnixName bound(name);
      ASSERT_EQ(::bind(client.get(), bound.get(), bound.length()), 0);
    }
    ASSERT_EQ(ConnectSocket(SocketAddress::Loopback(AF_INET, port_),
                            PeerUsers(), client),
              0);
    const base::UniqueFd server(
        ::accept4(listeners_[0].get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_TRUE(PeerOf(server.get()).empty()) << name;
  }
}

TEST_F(CmAddressTest, KnowsItsOwnAddresses) {
  EXPECT_TRUE(IsLocalAddress(Address("127.0.0.1:5")));
  EXPECT_TRUE(IsLocalAddress(Address("127.9.9.9:5")));
  EXPECT_TRUE(IsLocalAddress(Address("[::1]:5")));
  // Documentation addresses (RFC 5737 and 3849) are nobody's.
  EXPECT_FALSE(IsLocalAddress(Address("192.0.2.1:5")));
  EXPECT_FALSE(IsLocalAddress(Address("[2001:db8::1]:5")));
  ifaddrs* list = nullptr;
  ASSERT_EQ(::getifaddrs(&list), 0);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    SocketAddress own = SocketAddress::FromSockaddr(entry->ifa_addr);
    if (own.empty()) continue;
    own.set_port(5);
    EXPECT_TRUE(IsLocalAddress(own)) << own.ToString();
  }
  ::freeifaddrs(list);
}

TEST_F(CmAddressTest, ConnectsFromWhereTheKernelWould) {
  EXPECT_EQ(SourceFor(Address("127.0.0.1:5")).ToString(), "127.0.0.1:0");
  EXPECT_EQ(SourceFor(Address("127.0.0.9:5")).ToString(), "127.0.0.1:0");
  EXPECT_EQ(SourceFor(Address("[::1]:5")).ToString(), "[::1]:0");
  EXPECT_EQ(SourceFor(Address("10.0.0.7:5")).ToString(), "10.0.0.7:0");
}

// Last, because it cannot be taken back.
TEST(LocalAddressTest, TestsMayReachOwnAddressesByTheNetwork) {
  EXPECT_TRUE(IsReachedWithinHost(Address("127.0.0.1:5")));
  EXPECT_FALSE(IsReachedWithinHost(Address("192.0.2.1:5")));
  ReachAllPeersByNetwork();
  EXPECT_FALSE(IsReachedWithinHost(Address("127.0.0.1:5")));
  EXPECT_TRUE(IsLocalAddress(Address("127.0.0.1:5")));
}

}  // namespace
}  // namespace verbena::soft
