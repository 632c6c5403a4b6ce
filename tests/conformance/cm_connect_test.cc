// The connection manager: how a connection begins and ends.

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "tests/conformance/cm_end.h"
#include "tests/conformance/device.h"

namespace verbena::conformance {
namespace {

class CmConnectTest : public testing::Test {
 protected:
  CmEnd client;
  CmEnd server;
};

TEST_F(CmConnectTest, PrivateDataGoesBothWays) {
  client.Dial(server.Listen(), "from the client");
  EXPECT_EQ(server.TakeRequest().data, "from the client");
  EXPECT_EQ(server.Accept("from the server"), 0);
  EXPECT_EQ(client.Expect(RDMA_CM_EVENT_ESTABLISHED).data, "from the server");
  server.Expect(RDMA_CM_EVENT_ESTABLISHED);
}

TEST_F(CmConnectTest, AsMuchPrivateDataAsInfinibandCarries) {
  client.Dial(server.Listen(), std::string(56, 'c'));
  EXPECT_EQ(server.TakeRequest().data, std::string(56, 'c'));
  EXPECT_EQ(server.Accept(std::string(196, 's')), 0);
  EXPECT_EQ(client.Expect(RDMA_CM_EVENT_ESTABLISHED).data,
            std::string(196, 's'));
}

TEST_F(CmConnectTest, MorePrivateDataIsRefused) {
  client.Resolve(server.Listen());
  EXPECT_EQ(client.Connect(std::string(57, 'c')), EINVAL);
  EXPECT_EQ(client.Connect(""), 0);
  server.TakeRequest();
  EXPECT_EQ(server.Reject(std::string(149, 's')), EINVAL);
  EXPECT_EQ(server.Accept(std::string(197, 's')), EINVAL);
}

TEST_F(CmConnectTest, EachSideHearsWhatTheOtherCanDo) {
  client.Dial(server.Listen());
  const CmReport request = server.TakeRequest();
  // As the responder sees it: what it is asked to accept, and may ask for.
  EXPECT_EQ(request.responder_resources, 2);
  EXPECT_EQ(request.initiator_depth, 4);
}

TEST_F(CmConnectTest, MoreRetriesThanThereAreAreAsManyAsThereAre) {
  client.retries = server.retries = 255;
  client.Dial(server.Listen());
  EXPECT_EQ(server.TakeRequest().retries, 7);
  EXPECT_EQ(server.Accept(""), 0);
  client.Expect(RDMA_CM_EVENT_ESTABLISHED);
  server.Expect(RDMA_CM_EVENT_ESTABLISHED);
  for (const CmEnd* end : {&client, &server}) {
    ibv_qp_attr attributes = {};
    ibv_qp_init_attr init = {};
    ASSERT_EQ(Verbs().query_qp(end->id->qp, &attributes,
                               IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY, &init),
              0);
    EXPECT_EQ(attributes.retry_cnt, 7);
    EXPECT_EQ(attributes.rnr_retry, 7);
  }
}

TEST_F(CmConnectTest, TheQueuePairsOfAConnectionAreReady) {
  Connect(client, server);
  EXPECT_EQ(client.State(), IBV_QPS_RTS);
  EXPECT_EQ(server.State(), IBV_QPS_RTS);
  server.PostReceive();
  client.Send("hello");
  EXPECT_EQ(client.Wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(server.Wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(server.Received(), "hello");
}

TEST_F(CmConnectTest, ACreatedQueuePairTakesReceivesAtOnce) {
  client.Dial(server.Listen());
  server.TakeRequest();
  EXPECT_EQ(server.State(), IBV_QPS_INIT);
  server.PostReceive();
  EXPECT_EQ(server.Accept(""), 0);
  client.Expect(RDMA_CM_EVENT_ESTABLISHED);
  client.Send("early");
  EXPECT_EQ(server.Wait().status, IBV_WC_SUCCESS);
}

TEST_F(CmConnectTest, ARejectionCarriesData) {
  client.Dial(server.Listen());
  server.TakeRequest();
  EXPECT_EQ(server.Reject("go away"), 0);
  const CmReport rejected = client.Expect(RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(rejected.status, 28);  // By the consumer.
  EXPECT_EQ(rejected.data, "go away");
  EXPECT_EQ(client.State(), IBV_QPS_ERR);
}

TEST_F(CmConnectTest, NobodyListeningIsARejection) {
  const uint16_t port = server.Listen();
  server.StopListening();
  client.Dial(port);
  const CmReport rejected = client.Expect(RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(rejected.status, 8);  // Invalid service.
  EXPECT_EQ(rejected.data, "");
}

TEST_F(CmConnectTest, AnIdThatIsDestroyedUnansweredIsARejection) {
  client.Dial(server.Listen());
  server.TakeRequest();
  server.DestroyId();
  client.Expect(RDMA_CM_EVENT_REJECTED);
}

TEST_F(CmConnectTest, DisconnectingTellsBothSides) {
  Connect(client, server);
  EXPECT_EQ(client.Disconnect(), 0);
  server.Expect(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(server.Disconnect(), 0);
  client.Expect(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(client.State(), IBV_QPS_ERR);
  EXPECT_EQ(server.State(), IBV_QPS_ERR);
}

TEST_F(CmConnectTest, DisconnectingAtOnceTellsEachSideOnce) {
  Connect(client, server);
  EXPECT_EQ(server.Disconnect(), 0);
  EXPECT_EQ(client.Disconnect(), 0);
  server.Expect(RDMA_CM_EVENT_DISCONNECTED);
  client.Expect(RDMA_CM_EVENT_DISCONNECTED);
  server.ExpectNothing();
  client.ExpectNothing();
}

TEST_F(CmConnectTest, DisconnectingFlushesReceives) {
  Connect(client, server);
  client.PostReceive();
  EXPECT_EQ(client.Disconnect(), 0);
  EXPECT_EQ(client.Wait().status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(CmConnectTest, DestroyingAConnectedIdTellsThePeer) {
  Connect(client, server);
  server.PostReceive();
  client.DestroyId();
  server.Expect(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(server.Disconnect(), 0);
  EXPECT_EQ(server.Wait().status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(CmConnectTest, AListenerServesOneClientAfterAnother) {
  const uint16_t port = server.Listen();
  for (int i = 0; i < 3; ++i) {
    client.Dial(port);
    server.TakeRequest();
    EXPECT_EQ(server.Accept(""), 0);
    client.Expect(RDMA_CM_EVENT_ESTABLISHED);
    server.Expect(RDMA_CM_EVENT_ESTABLISHED);
    client.DestroyId();
    server.Expect(RDMA_CM_EVENT_DISCONNECTED);
  }
}

TEST_F(CmConnectTest, APortMayNotBeListenedAtTwice) {
  const uint16_t port = server.Listen();
  client.CreateId();
  sockaddr_in address = {};
  std::memcpy(&address, &server.listener->route.addr.src_addr, sizeof(address));
  EXPECT_EQ(ntohs(address.sin_port), port);
  const auto bind = [&] {
    return Cm().bind_addr(client.id, reinterpret_cast<sockaddr*>(&address));
  };
  EXPECT_NE(bind(), 0);
  EXPECT_EQ(errno, EADDRINUSE);
  server.StopListening();
  EXPECT_EQ(bind(), 0);
}

}  // namespace
}  // namespace verbena::conformance
