#include "transport/soft/remote/tcp_socket.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdint>
#include <utility>

#include "transport/base/socket_address.h"
#include "transport/base/unique_fd.h"

namespace verbena::soft {
namespace {

using base::SocketAddress;

// Expedited forwarding (RFC 3246), and another.
constexpr uint8_t kClass = 46 << 2;
constexpr uint8_t kOtherClass = 10 << 2;

int Option(int socket, int level, int option) {
  int value = -1;
  socklen_t length = sizeof(value);
  EXPECT_EQ(::getsockopt(socket, level, option, &value, &length), 0);
  return value;
}

struct Ends {
  base::UniqueFd connected;
  base::UniqueFd accepted;
};

Ends Connect(const SocketAddress& loopback, uint8_t of_listener,
             uint8_t of_client) {
  Ends ends;
  base::UniqueFd listener;
  EXPECT_EQ(OpenTcpListener(loopback, false, listener), 0);
  SetTrafficClass(listener.get(), of_listener);
  EXPECT_EQ(StartTcpConnect({}, TcpLocalAddress(listener.get()), of_client,
                            ends.connected),
            0);
  pollfd ready = {.fd = listener.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&ready, 1, 10000), 1);
  ends.accepted =
      base::UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_TRUE(ends.accepted.valid());
  return ends;
}

TEST(TcpSocketTest, EachSideMarksWhatItSends) {
  const Ends ends =
      Connect(SocketAddress::Loopback(AF_INET, 0), kOtherClass, kClass);
  EXPECT_EQ(Option(ends.connected.get(), IPPROTO_IP, IP_TOS), kClass);
  EXPECT_EQ(Option(ends.accepted.get(), IPPROTO_IP, IP_TOS), kOtherClass);
}

TEST(TcpSocketTest, Ipv6IsMarkedToo) {
  const Ends ends =
      Connect(SocketAddress::Loopback(AF_INET6, 0), kOtherClass, kClass);
  EXPECT_EQ(Option(ends.connected.get(), IPPROTO_IPV6, IPV6_TCLASS), kClass);
  EXPECT_EQ(Option(ends.accepted.get(), IPPROTO_IPV6, IPV6_TCLASS),
            kOtherClass);
}

TEST(TcpSocketTest, NothingIsMarkedByDefault) {
  const Ends ends = Connect(SocketAddress::Loopback(AF_INET, 0), 0, 0);
  EXPECT_EQ(Option(ends.connected.get(), IPPROTO_IP, IP_TOS), 0);
  EXPECT_EQ(Option(ends.accepted.get(), IPPROTO_IP, IP_TOS), 0);
}

}  // namespace
}  // namespace verbena::soft
