// The connection manager: what an id may be asked in which state, and what
// becomes of it.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include "tests/conformance/cm_end.h"
#include "tests/conformance/device.h"

namespace verbena::conformance {
namespace {

class CmIdsTest : public testing::Test {
 protected:
  CmEnd client;
  CmEnd server;
};

TEST_F(CmIdsTest, StepsOutOfOrderAreRefused) {
  const uint16_t port = server.Listen();
  client.CreateId();
  EXPECT_EQ(client.ResolveAddr(port), 0);
  client.Expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  // Not before: librdmacm looks at the id's device.
  EXPECT_EQ(client.Connect(""), EINVAL);
  EXPECT_EQ(client.Accept(""), EINVAL);
  EXPECT_EQ(client.Reject(""), EINVAL);
  EXPECT_EQ(client.Disconnect(), EINVAL);
  EXPECT_EQ(client.ResolveRoute(), 0);
  client.Expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  EXPECT_EQ(client.ResolveRoute(), EINVAL);
  EXPECT_EQ(Cm().listen(client.id, 1), -1);
}

TEST_F(CmIdsTest, AResolvedIdKnowsItsDeviceAndItsAddresses) {
  const uint16_t port = server.Listen();
  client.CreateId();
  EXPECT_EQ(client.id->verbs, nullptr);
  EXPECT_EQ(client.ResolveAddr(port), 0);
  client.Expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_NE(client.id->verbs, nullptr);
  EXPECT_EQ(client.id->port_num, kPort);
  EXPECT_EQ(client.id->route.addr.src_addr.sa_family, AF_INET);
  sockaddr_in peer = {};
  std::memcpy(&peer, &client.id->route.addr.dst_addr, sizeof(peer));
  EXPECT_EQ(ntohs(peer.sin_port), port);
}

TEST_F(CmIdsTest, AChannelWithoutEventsSaysSo) {
  CmReport report;
  EXPECT_EQ(client.Poll(&report), EAGAIN);
}

TEST_F(CmIdsTest, EventsComeInOrderAndOnce) {
  Connect(client, server);
  client.ExpectNothing();
  server.ExpectNothing();
}

TEST_F(CmIdsTest, AnIdMayBeDestroyedInEveryState) {
  const uint16_t port = server.Listen();
  client.CreateId();
  client.DestroyId();

  client.CreateId();
  EXPECT_EQ(client.ResolveAddr(port), 0);
  client.DestroyId();  // Its event is not read any more.
  client.ExpectNothing();

  client.CreateId();
  EXPECT_EQ(client.ResolveAddr(port), 0);
  client.Expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(client.ResolveRoute(), 0);
  client.DestroyId();
  client.ExpectNothing();

  client.Resolve(port);
  client.DestroyId();

  client.Dial(port);
  client.DestroyId();
  client.ExpectNothing();
}

TEST_F(CmIdsTest, MigratingTakesUnreadEventsAlong) {
  CmEnd other;
  const uint16_t port = server.Listen();
  client.CreateId();
  EXPECT_EQ(client.ResolveAddr(port), 0);
  pollfd readable = {client.channel->fd, POLLIN, 0};
  ASSERT_EQ(poll(&readable, 1, 10'000), 1);  // The event is there.
  EXPECT_EQ(Cm().migrate_id(client.id, other.channel), 0);
  client.ExpectNothing();
  EXPECT_EQ(other.Expect(RDMA_CM_EVENT_ADDR_RESOLVED).id, client.id);
  EXPECT_EQ(client.id->channel, other.channel);
  EXPECT_EQ(client.ResolveRoute(), 0);
  other.Expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  client.DestroyId();
}

TEST_F(CmIdsTest, ARequestMayBeServedOnAnotherChannel) {
  CmEnd other;
  client.Dial(server.Listen());
  server.TakeRequest();
  EXPECT_EQ(Cm().migrate_id(server.id, other.channel), 0);
  EXPECT_EQ(server.Accept(""), 0);
  client.Expect(RDMA_CM_EVENT_ESTABLISHED);
  other.Expect(RDMA_CM_EVENT_ESTABLISHED);
  client.DestroyId();
  other.Expect(RDMA_CM_EVENT_DISCONNECTED);
  server.DestroyId();
}

TEST_F(CmIdsTest, DestroyingWaitsForEventsToBeAcknowledged) {
  client.CreateId();
  EXPECT_EQ(client.ResolveAddr(server.Listen()), 0);
  pollfd readable = {client.channel->fd, POLLIN, 0};
  ASSERT_EQ(poll(&readable, 1, 10'000), 1);
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(Cm().get_cm_event(client.channel, &event), 0);
  std::atomic<bool> acknowledged = false;
  bool destroyed_after = false;
  std::thread destroyer([&] {
    client.DestroyId();
    destroyed_after = acknowledged;
  });
  server.ExpectNothing();  // Time enough for the other thread.
  acknowledged = true;
  EXPECT_EQ(Cm().ack_cm_event(event), 0);
  destroyer.join();
  EXPECT_TRUE(destroyed_after);
}

TEST_F(CmIdsTest, AnIdHasOneQueuePair) {
  client.Resolve(server.Listen());
  EXPECT_EQ(client.CreateQp(), EINVAL);
  Cm().destroy_qp(client.id);
  EXPECT_EQ(client.id->qp, nullptr);
  EXPECT_EQ(client.CreateQp(), 0);
}

TEST_F(CmIdsTest, ARequestThatIsAnsweredTwiceIsRefused) {
  client.Dial(server.Listen());
  server.TakeRequest();
  EXPECT_EQ(server.Accept(""), 0);
  client.Expect(RDMA_CM_EVENT_ESTABLISHED);
  server.Expect(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(server.Accept(""), EINVAL);
}

}  // namespace
}  // namespace verbena::conformance
