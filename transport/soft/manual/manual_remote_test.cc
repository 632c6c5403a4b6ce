// Queue pairs that are connected manually to a peer of another host, which the
// test plays.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "transport/base/socket_address.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/address/gid_table.h"
#include "transport/soft/cm/network_of_own.h"
#include "transport/soft/remote/tcp_protocol.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

// Less than that of any queue pair here, so it is for the peer to connect.
constexpr uint32_t kPeerNumber = 5;

int ToReadyToReceive(TestEnd& end) {
  ibv_qp_attr attributes = end.AttributesFor(IBV_QPS_RTR);
  attributes.dest_qp_num = kPeerNumber;
  attributes.ah_attr = end.Path(GidOf(OtherHost(0)));
  return end.verbs.modify_qp(end.qp, &attributes, end.MaskFor(IBV_QPS_RTR));
}

// A connection of the peer, as soon as this host has the port, with what the
// peer says first: for whom it is, and that the peer is ready.
base::UniqueFd ConnectAsPeer(uint32_t number) {
  const base::SocketAddress from = OtherHost(0);
  base::SocketAddress to = *base::SocketAddress::ParseNumeric("10.78.0.1:1");
  to.set_port(kTcpPortDefault);
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < deadline) {
    base::UniqueFd tcp(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(tcp.get(), from.get(), from.size()), 0);
    if (::connect(tcp.get(), to.get(), to.size()) == 0) {
      TcpPreamble preamble;
      preamble.from = kPeerNumber;
      preamble.to = number;
      const uint64_t ready = LinkNews{.state = kLinkOpen}.word();
      ::send(tcp.get(), &preamble, sizeof(preamble), 0);
      ::send(tcp.get(), &ready, sizeof(ready), 0);
      return tcp;
    }
    std::this_thread::yield();
  }
  ADD_FAILURE() << "nobody has the port";
  return base::UniqueFd();
}

// Whether so many bytes come.
bool Hears(const base::UniqueFd& tcp, size_t length) {
  std::array<std::byte, 256> bytes;
  constexpr int kPatienceMs = 10'000;
  while (length != 0) {
    pollfd wait = {.fd = tcp.get(), .events = POLLIN, .revents = 0};
    if (::poll(&wait, 1, kPatienceMs) != 1) return false;
    const ssize_t got = ::recv(tcp.get(), bytes.data(),
                               std::min(length, bytes.size()), MSG_DONTWAIT);
    if (got <= 0) return false;
    length -= static_cast<size_t>(got);
  }
  return true;
}

constexpr size_t kStateBytes = 8;
// More than any of the messages that are no request.
constexpr size_t kRequestBytes = 200;

// The peer was reset after it had connected, and connects anew. This side,
// which has been reset as well, may still find the first connection.
TEST(ManualRemoteTest, AConnectionOfAnEarlierLifeIsFollowedByAnother) {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
    TestEndOptions options;
    options.type = type;
    options.timeout = 20;
    TestEnd end(options);
    ASSERT_EQ(end.To(IBV_QPS_INIT), 0);
    ASSERT_EQ(ToReadyToReceive(end), 0);
    {
      const base::UniqueFd first = ConnectAsPeer(end.qp->qp_num);
      EXPECT_TRUE(Hears(first, kStateBytes));
    }
    const base::UniqueFd second = ConnectAsPeer(end.qp->qp_num);
    EXPECT_TRUE(Hears(second, kStateBytes));
    ASSERT_EQ(end.To(IBV_QPS_RTS), 0);
    ASSERT_EQ(end.Send(1, 0, kRequestBytes), 0);
    EXPECT_TRUE(Hears(second, kRequestBytes));
  }
}

// The first connection has even taken a request with it.
TEST(ManualRemoteTest, WhatWasSentByItIsSentAgain) {
  TestEndOptions options;
  options.timeout = 20;
  TestEnd end(options);
  ASSERT_EQ(end.To(IBV_QPS_INIT), 0);
  ASSERT_EQ(ToReadyToReceive(end), 0);
  {
    const base::UniqueFd first = ConnectAsPeer(end.qp->qp_num);
    EXPECT_TRUE(Hears(first, kStateBytes));
    ASSERT_EQ(end.To(IBV_QPS_RTS), 0);
    ASSERT_EQ(end.Send(1, 0, kRequestBytes), 0);
    EXPECT_TRUE(Hears(first, kRequestBytes));
  }
  const base::UniqueFd second = ConnectAsPeer(end.qp->qp_num);
  EXPECT_TRUE(Hears(second, kStateBytes + kRequestBytes));
}

}  // namespace
}  // namespace verbena::soft

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  verbena::soft::EnterNetworkOfOurOwn();
  return RUN_ALL_TESTS();
}
