// Datagrams over UDP, on the loopback interface: what other hosts would send.

#include "transport/soft/datagram/datagram_network.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "transport/base/socket_address.h"
#include "transport/soft/address/gid_table.h"
#include "transport/soft/base/datagram_socket.h"

namespace verbena::soft {
namespace {

// A port and two queue pair numbers that depend on the process, so that the
// test may run beside itself: the port is below those that the kernel gives
// away, and nobody has the numbers.
const auto kPort = static_cast<uint16_t>(20000 + getpid() % 10000);
const uint32_t kNumber = 0xfe0001 + 2 * (getpid() % 0x8000);

DatagramRoute RouteTo(const base::SocketAddress& address) {
  DatagramRoute route;
  route.destination = address;
  route.source = address;
  route.hop_limit = 3;
  return route;
}

DatagramRoute Ipv4() {
  return RouteTo(base::SocketAddress::Loopback(AF_INET, 0));
}

// The socket of a queue pair that receives.
class Receiver {
 public:
  Receiver() { EXPECT_EQ(OpenDatagramSocket(kNumber, socket_), 0); }

  // The next message within ten seconds, and its header.
  std::optional<std::string> Next(DatagramHeader* header = nullptr) {
    pollfd wait = {socket_.get(), POLLIN, 0};
    if (poll(&wait, 1, 10000) != 1) return std::nullopt;
    std::byte bytes[kDatagramBytesMax];
    const ssize_t length = ReceiveDatagram(socket_.get(), bytes, sizeof(bytes));
    DatagramHeader read;
    EXPECT_TRUE(ReadDatagramHeader(bytes, static_cast<size_t>(length), read));
    if (header != nullptr) *header = read;
    return std::string(reinterpret_cast<char*>(bytes) + sizeof(read),
                       static_cast<size_t>(length) - sizeof(read));
  }

 private:
  base::UniqueFd socket_;
};

int Send(DatagramNetwork& network, const DatagramRoute& route, std::string text,
         uint32_t number = kNumber) {
  DatagramHeader header;
  header.destination_qp = number;
  header = ToWire(header);
  const iovec parts[] = {{&header, sizeof(header)}, {text.data(), text.size()}};
  return network.Send(route, parts, 2);
}

TEST(DatagramNetworkTest, WhatComesIsHandedToTheQueuePair) {
  Receiver receiver;
  Engine engine;
  DatagramNetwork network(engine, kPort);
  network.Start();
  EXPECT_EQ(Send(network, Ipv4(), "four"), 0);
  DatagramHeader header;
  EXPECT_EQ(receiver.Next(&header), "four");
  // The sender has not said where it is; the packet has.
  EXPECT_TRUE(
      SameGid(header.source, GidOf(base::SocketAddress::Loopback(AF_INET, 0))));
  EXPECT_EQ(
      Send(network, RouteTo(base::SocketAddress::Loopback(AF_INET6, 0)), "six"),
      0);
  EXPECT_EQ(receiver.Next(&header), "six");
  EXPECT_TRUE(SameGid(header.source,
                      GidOf(base::SocketAddress::Loopback(AF_INET6, 0))));
}

TEST(DatagramNetworkTest, AnotherTakesOverWhenTheHolderEnds) {
  Receiver receiver;
  Engine engine;
  auto holder = std::make_optional<DatagramNetwork>(engine, kPort);
  holder->Start();
  DatagramNetwork next(engine, kPort);
  next.Start();
  ASSERT_EQ(Send(next, Ipv4(), "to the first"), 0);
  EXPECT_EQ(receiver.Next(), "to the first");
  holder.reset();
  // Datagrams are lost until the next owner of the port has noticed.
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(10);
  std::thread sender([&] {
    while (std::chrono::steady_clock::now() < deadline) {
      Send(next, Ipv4(), "to the second");
      pollfd nothing = {-1, 0, 0};
      if (poll(&nothing, 1, 20) != 0 || next.holds()) break;
    }
    Send(next, Ipv4(), "to the second");
  });
  EXPECT_EQ(receiver.Next(), "to the second");
  sender.join();
}

TEST(DatagramNetworkTest, GarbageIsDropped) {
  Receiver receiver;
  Engine engine;
  DatagramNetwork network(engine, kPort);
  network.Start();
  for (const size_t length : {0, 1, 63, 64, 1000, 4161, 9000}) {
    std::string garbage(length, '\xee');
    const iovec part = {garbage.data(), garbage.size()};
    ASSERT_EQ(network.Send(Ipv4(), &part, 1), 0);
  }
  // None of these three arrives: the queue pair does not exist, datagrams for a
  // group must not come this way, and the third datagram is too long.
  ASSERT_EQ(Send(network, Ipv4(), "lost", 3), 0);
  ASSERT_EQ(Send(network, Ipv4(), "lost", kMulticastQueuePair), 0);
  ASSERT_EQ(Send(network, Ipv4(), std::string(kDatagramPayloadMax + 1, 'x')),
            0);
  ASSERT_EQ(Send(network, Ipv4(), "good"), 0);
  EXPECT_EQ(receiver.Next(), "good");
}

TEST(DatagramNetworkTest, AReceiverThatDoesNotReadHoldsUpOthersOnlyForAMoment) {
  Engine engine;
  DatagramNetwork network(engine, kPort);
  network.Start();
  base::UniqueFd slow;
  ASSERT_EQ(OpenDatagramSocket(kNumber - 1, slow), 0);
  Receiver receiver;
  // These are more datagrams than any queue of the kernel holds for it.
  for (int i = 0; i < 600; ++i) {
    ASSERT_EQ(Send(network, Ipv4(), "unread", kNumber - 1), 0);
  }
  ASSERT_EQ(Send(network, Ipv4(), "read"), 0);
  EXPECT_EQ(receiver.Next(), "read");
}

TEST(DatagramNetworkTest, WithoutAPortNothingIsSent) {
  Engine engine;
  DatagramNetwork network(engine, 0);
  network.Start();
  EXPECT_EQ(Send(network, Ipv4(), "nowhere"), ENETUNREACH);
  EXPECT_FALSE(network.holds());
}

}  // namespace
}  // namespace verbena::soft
