#include "transport/soft/preload/cm_library.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cerrno>
#include <thread>

#include "gtest/gtest.h"
#include "transport/soft/full/full_provider.h"

namespace verbena::soft {
namespace {

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = port;  // In network byte order.
  return address;
}

ibv_qp_init_attr SmallQueues() {
  ibv_qp_init_attr attributes = {};
  attributes.cap = {.max_send_wr = 2,
                    .max_recv_wr = 3,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 16};
  attributes.sq_sig_all = 1;
  return attributes;
}

class CmLibraryTest : public testing::Test {
 protected:
  // A listening endpoint at a free port of the loopback address.
  rdma_cm_id* Listen(ibv_qp_init_attr* attributes) {
    sockaddr_in any = Loopback(0);
    rdma_addrinfo address = {};
    address.ai_flags = RAI_PASSIVE;
    address.ai_qp_type = IBV_QPT_RC;
    address.ai_port_space = RDMA_PS_TCP;
    address.ai_src_addr = reinterpret_cast<sockaddr*>(&any);
    rdma_cm_id* listener = nullptr;
    EXPECT_EQ(library_.CreateEp(&listener, &address, nullptr, attributes), 0);
    EXPECT_EQ(provider_.cm.listen(listener, 1), 0);
    return listener;
  }

  int CreateClient(uint16_t port, rdma_cm_id** id) {
    sockaddr_in server = Loopback(port);
    rdma_addrinfo address = {};
    address.ai_qp_type = IBV_QPT_RC;
    address.ai_port_space = RDMA_PS_TCP;
    address.ai_dst_addr = reinterpret_cast<sockaddr*>(&server);
    ibv_qp_init_attr attributes = SmallQueues();
    return library_.CreateEp(id, &address, nullptr, &attributes);
  }

  const transport::Provider& provider_ = FullSoftProvider();
  CmLibrary library_{provider_};
};

TEST_F(CmLibraryTest, EndpointsConnectAndPartSynchronously) {
  ibv_qp_init_attr attributes = SmallQueues();
  rdma_cm_id* listener = Listen(&attributes);
  const uint16_t port = provider_.cm.get_src_port(listener);

  std::thread server([&] {
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(library_.GetRequest(listener, &id), 0);
    EXPECT_NE(id->qp, nullptr);
    EXPECT_EQ(id->event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
    ASSERT_EQ(library_.Accept(id, nullptr), 0);
    EXPECT_EQ(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
    // Disconnect() waits for its event, because the connections of a
    // synchronous listener are synchronous.
    EXPECT_EQ(library_.Disconnect(id), 0);
    library_.DestroyEp(id);
  });
  rdma_cm_id* client = nullptr;
  ASSERT_EQ(CreateClient(port, &client), 0);
  EXPECT_EQ(library_.Connect(client, nullptr), 0);
  EXPECT_EQ(client->event->event, RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(library_.Disconnect(client), 0);
  server.join();
  library_.DestroyEp(client);
  library_.DestroyEp(listener);
}

TEST_F(CmLibraryTest, AnEndpointHasQueuesOfItsOwn) {
  rdma_cm_id* listener = Listen(nullptr);
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(CreateClient(provider_.cm.get_src_port(listener), &id), 0);
  EXPECT_EQ(id->qp->send_cq, id->send_cq);
  EXPECT_EQ(id->qp->recv_cq, id->recv_cq);
  EXPECT_EQ(id->send_cq->channel, id->send_cq_channel);
  EXPECT_EQ(id->send_cq->cq_context, id);
  EXPECT_NE(id->pd, nullptr);
  library_.DestroyQp(id);
  EXPECT_EQ(id->send_cq, nullptr);
  EXPECT_EQ(id->recv_cq_channel, nullptr);
  library_.DestroyEp(id);
  library_.DestroyEp(listener);
}

TEST_F(CmLibraryTest, OneQueueForBothIsDestroyedOnce) {
  rdma_cm_id* listener = Listen(nullptr);
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(CreateClient(provider_.cm.get_src_port(listener), &id), 0);
  library_.DestroyQp(id);
  // rsockets do this before they create the queue pair.
  id->recv_cq_channel = provider_.verbs.create_comp_channel(id->verbs);
  id->recv_cq =
      provider_.verbs.create_cq(id->verbs, 4, id, id->recv_cq_channel, 0);
  id->send_cq_channel = id->recv_cq_channel;
  id->send_cq = id->recv_cq;
  ibv_qp_init_attr attributes = SmallQueues();
  attributes.qp_type = IBV_QPT_RC;
  attributes.send_cq = id->send_cq;
  attributes.recv_cq = id->recv_cq;
  ASSERT_EQ(library_.CreateQp(id, nullptr, &attributes), 0);
  library_.DestroyEp(id);
  library_.DestroyEp(listener);
}

TEST_F(CmLibraryTest, IdentifiersOfADeviceShareOneDomain) {
  rdma_cm_id* first = Listen(nullptr);
  rdma_cm_id* second = Listen(nullptr);
  EXPECT_NE(first->pd, nullptr);
  EXPECT_EQ(first->pd, second->pd);
  library_.DestroyEp(first);
  library_.DestroyEp(second);
}

TEST_F(CmLibraryTest, NobodyListeningIsConnectionRefused) {
  rdma_cm_id* listener = Listen(nullptr);
  const uint16_t port = provider_.cm.get_src_port(listener);
  library_.DestroyEp(listener);
  rdma_cm_id* client = nullptr;
  ASSERT_EQ(CreateClient(port, &client), 0);
  EXPECT_EQ(library_.Connect(client, nullptr), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
  library_.DestroyEp(client);
}

TEST_F(CmLibraryTest, AnIdentifierBecomesSynchronousAndBack) {
  rdma_event_channel* channel = provider_.cm.create_event_channel();
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(library_.CreateId(channel, &id, nullptr, RDMA_PS_TCP), 0);
  ASSERT_EQ(library_.MigrateId(id, nullptr), 0);
  EXPECT_NE(id->channel, channel);
  sockaddr_in server = Loopback(htons(1));
  ASSERT_EQ(library_.ResolveAddr(id, nullptr,
                                 reinterpret_cast<sockaddr*>(&server), 1000),
            0);
  EXPECT_EQ(id->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
  ASSERT_EQ(library_.MigrateId(id, channel), 0);
  EXPECT_EQ(id->channel, channel);
  EXPECT_EQ(library_.DestroyId(id), 0);
  provider_.cm.destroy_event_channel(channel);
}

TEST_F(CmLibraryTest, OnlyASynchronousListenerIsAskedForRequests) {
  rdma_event_channel* channel = provider_.cm.create_event_channel();
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(library_.CreateId(channel, &id, nullptr, RDMA_PS_TCP), 0);
  rdma_cm_id* request = nullptr;
  EXPECT_EQ(library_.GetRequest(id, &request), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(library_.DestroyId(id), 0);
  provider_.cm.destroy_event_channel(channel);
}

TEST_F(CmLibraryTest, AnEndpointWhoseAddressCannotBeHadIsNotMade) {
  rdma_addrinfo address = {};
  address.ai_flags = RAI_PASSIVE;
  address.ai_port_space = RDMA_PS_TCP;
  sockaddr_in elsewhere = Loopback(0);
  ASSERT_EQ(inet_pton(AF_INET, "203.0.113.1", &elsewhere.sin_addr), 1);
  address.ai_src_addr = reinterpret_cast<sockaddr*>(&elsewhere);
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(library_.CreateEp(&id, &address, nullptr, nullptr), -1);
  EXPECT_EQ(errno, EADDRNOTAVAIL);
  EXPECT_EQ(id, nullptr);
}

}  // namespace
}  // namespace verbena::soft
