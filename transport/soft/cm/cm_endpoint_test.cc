#include "transport/soft/cm/cm_endpoint.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <utility>

namespace verbena::soft {
namespace {

class CmChannelTest : public testing::Test {
 protected:
  void Push(std::shared_ptr<CmEndpoint> owner, int status) {
    auto event = std::make_unique<CmEventRecord>();
    event->owner = std::move(owner);
    event->status = status;
    channel_->Push(std::move(event));
  }

  // The status of the oldest event; -1 when there is none.
  int Pop() {
    const std::unique_ptr<CmEventRecord> event = channel_->Pop();
    return event == nullptr ? -1 : event->status;
  }

  bool Readable() {
    pollfd descriptor = {.fd = channel_->fd, .events = POLLIN, .revents = 0};
    return ::poll(&descriptor, 1, 0) == 1;
  }

  std::unique_ptr<CmChannel> channel_ = CmChannel::Create();
  std::shared_ptr<CmEndpoint> one_ = std::make_shared<CmEndpoint>();
  std::shared_ptr<CmEndpoint> two_ = std::make_shared<CmEndpoint>();
};

TEST_F(CmChannelTest, IsReadableAsLongAsThereIsAnEvent) {
  EXPECT_FALSE(Readable());
  Push(one_, 1);
  Push(one_, 2);
  EXPECT_TRUE(Readable());
  EXPECT_EQ(Pop(), 1);
  EXPECT_TRUE(Readable());
  EXPECT_EQ(Pop(), 2);
  EXPECT_FALSE(Readable());
  EXPECT_EQ(Pop(), -1);
}

TEST_F(CmChannelTest, RemovesTheEventsOfOneEndpointInOrder) {
  Push(one_, 1);
  Push(two_, 2);
  Push(one_, 3);
  const auto removed = channel_->Remove(*one_);
  ASSERT_EQ(removed.size(), 2u);
  EXPECT_EQ(removed[0]->status, 1);
  EXPECT_EQ(removed[1]->status, 3);
  EXPECT_TRUE(Readable());
  EXPECT_EQ(channel_->Remove(*two_).size(), 1u);
  EXPECT_FALSE(Readable());
  EXPECT_TRUE(channel_->Remove(*two_).empty());
}

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
  CmEndpoint endpoint;
  EXPECT_DEATH(endpoint.Transition(CmState::kEstablished),
               "idle to established");
}

}  // namespace
}  // namespace verbena::soft
