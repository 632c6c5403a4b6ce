#include "transport/soft/cm/connection_manager.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "transport/soft/cm/cm_test_end.h"
#include "transport/soft/device/soft_device.h"

namespace verbena::soft {
namespace {

using transport::CmEvent;
using transport::CmId;

base::SocketAddress Address(absl::string_view text) {
  return *base::SocketAddress::ParseNumeric(text);
}

int OpenDescriptors() {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    (void)entry;
    ++count;
  }
  return count;
}

class ConnectionManagerTest : public testing::Test {
 protected:
  // Brings up a connection from `client_` to `server_`, which listens.
  void Connect(const base::SocketAddress& address) {
    client_.Dial(address);
    server_.TakeRequest();
    EXPECT_TRUE(server_.Accept("").ok());
    client_.Expect(RDMA_CM_EVENT_ESTABLISHED);
    server_.Expect(RDMA_CM_EVENT_ESTABLISHED);
  }

  CmTestEnd server_;
  CmTestEnd client_;
};

TEST_F(ConnectionManagerTest, SaysWhoseProcessThePeerIs) {
  Connect(server_.Listen("127.0.0.1:0"));
  for (CmTestEnd* const end : {&client_, &server_}) {
    uid_t user = ::geteuid() + 1;
    EXPECT_TRUE(TestProvider().peer_user(end->id().get(), &user));
    EXPECT_EQ(user, ::geteuid());
  }
  uid_t user = 0;
  EXPECT_FALSE(TestProvider().peer_user(server_.listener().get(), &user));
}

TEST_F(ConnectionManagerTest, PadsPrivateDataAsInfinibandDoes) {
  client_.Dial(server_.Listen("127.0.0.1:0"), "x");
  const CmEvent request = server_.TakeRequest();
  EXPECT_EQ(request.private_data().size(), 56u);
  EXPECT_TRUE(server_.Accept("y").ok());
  EXPECT_EQ(client_.Expect(RDMA_CM_EVENT_ESTABLISHED).private_data().size(),
            196u);
  EXPECT_EQ(server_.Expect(RDMA_CM_EVENT_ESTABLISHED).private_data().size(),
            0u);
}

TEST_F(ConnectionManagerTest, TellsBothSidesTheirAddresses) {
  const base::SocketAddress address = server_.Listen("0.0.0.0:0");
  EXPECT_TRUE(address.IsAny());
  EXPECT_NE(address.port(), 0);
  base::SocketAddress dialled = Address("127.0.0.2:0");
  dialled.set_port(address.port());
  Connect(dialled);
  EXPECT_EQ(server_.id().LocalAddress(), dialled);
  EXPECT_EQ(client_.id().PeerAddress(), dialled);
  EXPECT_EQ(server_.id().PeerAddress(), client_.id().LocalAddress());
  EXPECT_EQ(client_.id().LocalAddress().HostString(), "127.0.0.1");
  EXPECT_NE(client_.id().SrcPort(), 0);
  EXPECT_NE(server_.id().context(), nullptr);
  EXPECT_EQ(server_.id().context(), client_.id().context());
  EXPECT_EQ(server_.id().port_num(), 1);
}

TEST_F(ConnectionManagerTest, ConnectsOverIpv6) {
  Connect(server_.Listen("[::1]:0"));
  EXPECT_EQ(server_.id().PeerAddress().HostString(), "::1");
}

// The queue pair is destroyed by ibv_destroy_qp, as perftest does it. Then the
// id has no queue pair any more, and what the peer sends fails.
TEST_F(ConnectionManagerTest, AQueuePairMayBeDestroyedWithoutItsId) {
  Connect(server_.Listen("127.0.0.1:0"));
  EXPECT_EQ(TestProvider().verbs.destroy_qp(client_.id().qp()), 0);
  EXPECT_EQ(client_.id().qp(), nullptr);
  server_.Send("late");
  EXPECT_EQ(server_.Complete(), IBV_WC_RETRY_EXC_ERR);
  EXPECT_TRUE(client_.id().Disconnect().ok());
  server_.Expect(RDMA_CM_EVENT_DISCONNECTED);
}

TEST_F(ConnectionManagerTest, TurnsReadResourcesRound) {
  client_.Dial(server_.Listen("127.0.0.1:0"));
  const CmEvent request = server_.TakeRequest();
  EXPECT_EQ(request.responder_resources, 2);
  EXPECT_EQ(request.initiator_depth, 4);
  EXPECT_TRUE(server_.id()
                  .Accept({.responder_resources = 1, .initiator_depth = 3})
                  .ok());
  const CmEvent established = client_.Expect(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(established.responder_resources, 3);
  EXPECT_EQ(established.initiator_depth, 1);
  ibv_qp_attr attributes = {};
  ibv_qp_init_attr init_attributes = {};
  TestProvider().verbs.query_qp(client_.id().qp(), &attributes, IBV_QP_STATE,
                                &init_attributes);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attributes.max_dest_rd_atomic, 3);
  EXPECT_EQ(attributes.max_rd_atomic, 1);
}

TEST_F(ConnectionManagerTest, GivesQueuePairsTheAccessThatLibrdmacmGives) {
  Connect(server_.Listen("127.0.0.1:0"));
  ibv_qp_attr attributes = {};
  ibv_qp_init_attr init_attributes = {};
  TestProvider().verbs.query_qp(server_.id().qp(), &attributes,
                                IBV_QP_ACCESS_FLAGS, &init_attributes);
  EXPECT_NE(attributes.qp_access_flags & IBV_ACCESS_REMOTE_WRITE, 0u);
  EXPECT_NE(attributes.qp_access_flags & IBV_ACCESS_REMOTE_READ, 0u);
  EXPECT_EQ(attributes.min_rnr_timer, 0);
}

TEST_F(ConnectionManagerTest, IsRefusedWhereSomebodyIsBoundButDoesNotListen) {
  CmId bound = *CmId::Create(TestProvider(), server_.channel());
  EXPECT_TRUE(bound.BindAddr(Address("127.0.0.1:0")).ok());
  client_.Dial(bound.LocalAddress());
  EXPECT_EQ(client_.Expect(RDMA_CM_EVENT_REJECTED).status, 8);
}

TEST_F(ConnectionManagerTest, RefusesAForeignAddress) {
  CmId id = *CmId::Create(TestProvider(), client_.channel());
  EXPECT_EQ(id.BindAddr(Address("192.0.2.1:0")).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(
      id.ResolveAddr({}, Address("255.255.255.255:5"), absl::Seconds(1)).ok());
  const CmEvent event = client_.Expect(RDMA_CM_EVENT_ADDR_ERROR);
  EXPECT_EQ(event.status, -EHOSTUNREACH);
}

TEST_F(ConnectionManagerTest, ConnectsFromTheAddressItWasBoundTo) {
  const base::SocketAddress address = server_.Listen("127.0.0.1:0");
  CmId id = *CmId::Create(TestProvider(), client_.channel());
  EXPECT_TRUE(id.BindAddr(Address("0.0.0.0:0")).ok());
  const uint16_t port = id.SrcPort();
  EXPECT_TRUE(id.ResolveAddr({}, address, absl::Seconds(1)).ok());
  client_.Expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(id.LocalAddress().HostString(), "127.0.0.1");
  EXPECT_EQ(id.SrcPort(), port);
}

TEST_F(ConnectionManagerTest, RejectsRequestsThatNobodyReads) {
  const base::SocketAddress address = server_.Listen("127.0.0.1:0");
  client_.Dial(address);
  CmTestEnd second;
  second.Dial(address);
  server_.StopListening();
  // The listener rejects the requests that it has taken already; the others are
  // rejected by the end of its socket.
  client_.Expect(RDMA_CM_EVENT_REJECTED);
  second.Expect(RDMA_CM_EVENT_REJECTED);
  server_.ExpectNothing();
}

TEST_F(ConnectionManagerTest, RejectsWhatTheBacklogDoesNotHold) {
  const base::SocketAddress address = server_.Listen("127.0.0.1:0", 2);
  std::vector<std::unique_ptr<CmTestEnd>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<CmTestEnd>());
    clients.back()->Dial(address);
  }
  EXPECT_EQ(clients[2]->Expect(RDMA_CM_EVENT_REJECTED).status, 28);
  clients[0]->ExpectNothing();
  server_.TakeRequest();
  // There is room again.
  clients[2]->Dial(address);
  server_.TakeRequest();
  clients[2]->ExpectNothing();
}

TEST_F(ConnectionManagerTest, GivesUpOnAServerThatNeverAnswers) {
  client_.Dial(server_.Listen("127.0.0.1:0"));
  server_.TakeRequest();
  const CmEvent event = client_.Expect(RDMA_CM_EVENT_UNREACHABLE);
  EXPECT_EQ(event.status, -ETIMEDOUT);
  EXPECT_EQ(client_.QpState(), IBV_QPS_ERR);
  // The server learns that the client has given up when it answers at last.
  EXPECT_TRUE(server_.Accept("").ok());
  server_.Expect(RDMA_CM_EVENT_UNREACHABLE);
}

// The program hears of the end by DISCONNECTED, which it has yet to read: its
// receives are not flushed before it acts.
TEST_F(ConnectionManagerTest, APeerThatHasDisconnectedAndGoneFlushesNothing) {
  Connect(server_.Listen("127.0.0.1:0"));
  server_.PostReceive();
  client_.ExpectOk(client_.id().Disconnect());
  client_.Hangup();
  // Afterwards the engine has seen the end of the client's socket.
  SoftDevice::Get().engine().RunAndCatchUp([] {}, std::chrono::seconds(10));
  EXPECT_EQ(server_.QpState(), IBV_QPS_RTS);
  server_.Expect(RDMA_CM_EVENT_DISCONNECTED);
  server_.ExpectOk(server_.id().Disconnect());
  EXPECT_EQ(server_.Complete(), IBV_WC_WR_FLUSH_ERR);
}

TEST_F(ConnectionManagerTest, KeepsOrderBetweenVerbs) {
  const auto invalid = [](const absl::Status& status) {
    return status.code() == absl::StatusCode::kInvalidArgument;
  };
  CmId id = *CmId::Create(TestProvider(), client_.channel());
  EXPECT_TRUE(invalid(id.ResolveRoute(absl::Seconds(1))));
  EXPECT_TRUE(invalid(id.Connect({})));
  EXPECT_TRUE(invalid(id.Accept({})));
  EXPECT_TRUE(invalid(id.Reject({})));
  EXPECT_TRUE(invalid(id.Disconnect()));
  ibv_qp_init_attr attributes = {};
  EXPECT_TRUE(invalid(id.CreateQp(nullptr, &attributes)));
  EXPECT_TRUE(id.Listen(0).ok());
  EXPECT_TRUE(invalid(id.Listen(0)));
  EXPECT_TRUE(invalid(id.BindAddr(Address("127.0.0.1:0"))));
}

TEST_F(ConnectionManagerTest, TakesTheOptionsOfLibrdmacm) {
  CmId id = *CmId::Create(TestProvider(), client_.channel());
  EXPECT_TRUE(id.SetAckTimeout(18).ok());
  EXPECT_FALSE(id.SetAckTimeout(0).ok());
  EXPECT_FALSE(id.SetAckTimeout(32).ok());
  EXPECT_TRUE(id.SetIpv6Only(true).ok());
  EXPECT_TRUE(id.SetReuseAddress(true).ok());
  uint8_t byte = 0;
  EXPECT_FALSE(id.SetOption(RDMA_OPTION_IB, 1, &byte, 1).ok());
  EXPECT_FALSE(id.SetOption(RDMA_OPTION_ID, 99, &byte, 1).ok());
  EXPECT_FALSE(
      id.SetOption(RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &byte, 1).ok());
}

TEST_F(ConnectionManagerTest, OffersNoOtherPortSpace) {
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(TestProvider().cm.create_id(client_.channel().get(), &id, nullptr,
                                        RDMA_PS_IPOIB),
            -1);
  EXPECT_EQ(errno, EPROTONOSUPPORT);
}

TEST_F(ConnectionManagerTest, BlocksAReaderOfABlockingChannel) {
  const transport::CmOps& cm = TestProvider().cm;
  rdma_event_channel* channel = cm.create_event_channel();
  ASSERT_NE(channel, nullptr);
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(cm.create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
  std::thread resolver([&] {
    base::SocketAddress to = Address("127.0.0.1:5");
    EXPECT_EQ(cm.resolve_addr(id, nullptr, to.mutable_get(), 1000), 0);
  });
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(cm.get_cm_event(channel, &event), 0);
  EXPECT_EQ(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(cm.ack_cm_event(event), 0);
  resolver.join();
  EXPECT_EQ(cm.destroy_id(id), 0);
  cm.destroy_event_channel(channel);
}

TEST_F(ConnectionManagerTest, WhoAsksADestroyedChannelWaitsForEver) {
  const transport::CmOps& cm = TestProvider().cm;
  rdma_event_channel* const channel = cm.create_event_channel();
  ASSERT_NE(channel, nullptr);
  cm.destroy_event_channel(channel);
  // The thread never comes back, so nobody can wait for its end.
  auto answered = std::make_shared<std::promise<void>>();
  std::thread([channel, answered, &cm] {
    rdma_cm_event* event = nullptr;
    cm.get_cm_event(channel, &event);
    answered->set_value();
  }).detach();
  EXPECT_EQ(answered->get_future().wait_for(std::chrono::milliseconds(100)),
            std::future_status::timeout);
}

TEST(ConnectionManagerThreadsTest, ServesManyThreadsAtOnce) {
  std::vector<std::thread> threads(4);
  for (std::thread& thread : threads) {
    thread = std::thread([] {
      CmTestEnd server;
      const base::SocketAddress address = server.Listen("127.0.0.1:0");
      for (int j = 0; j < 20; ++j) {
        CmTestEnd client;
        client.Dial(address);
        server.TakeRequest();
        server.PostReceive();
        EXPECT_TRUE(server.Accept("").ok());
        client.Expect(RDMA_CM_EVENT_ESTABLISHED);
        server.Expect(RDMA_CM_EVENT_ESTABLISHED);
        client.Send("ping");
        EXPECT_EQ(server.Complete(), IBV_WC_SUCCESS);
        client.Hangup();
        server.Expect(RDMA_CM_EVENT_DISCONNECTED);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ConnectionManagerTest, LeaksNoDescriptors) {
  const base::SocketAddress address = server_.Listen("127.0.0.1:0");
  Connect(address);
  client_.Hangup();
  server_.Expect(RDMA_CM_EVENT_DISCONNECTED);
  server_.Hangup();
  const int before = OpenDescriptors();
  for (int i = 0; i < 100; ++i) {
    Connect(address);
    if (i % 2 == 0) {
      EXPECT_TRUE(client_.id().Disconnect().ok());
      client_.Expect(RDMA_CM_EVENT_DISCONNECTED);
    }
    client_.Hangup();
    server_.Expect(RDMA_CM_EVENT_DISCONNECTED);
    server_.Hangup();
  }
  EXPECT_EQ(OpenDescriptors(), before);
}

}  // namespace
}  // namespace verbena::soft
