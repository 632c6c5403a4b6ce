// Identifiers of the port space UDP: services are found, and groups are joined.

#include <gtest/gtest.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"
#include "transport/base/check.h"
#include "transport/base/socket_address.h"
#include "transport/soft/cm/cm_ops.h"
#include "transport/soft/datagram/datagram.h"
#include "transport/soft/datagram/datagram_verbs.h"
#include "transport/soft/full/full_provider.h"
#include "transport/soft/services/service_ops.h"
#include "transport/verbs/cm_ops.h"
#include "transport/verbs/verbs_ops.h"

namespace verbena::soft {
namespace {

base::SocketAddress Address(absl::string_view text) {
  return *base::SocketAddress::ParseNumeric(text);
}

// An event channel, and identifiers on it.
class End {
 public:
  End() : channel_(cm.create_event_channel()) {}
  ~End() {
    if (id != nullptr) Destroy(id);
    if (listener != nullptr) Destroy(listener);
    if (mr_ != nullptr) CHECK_EQ(verbs.dereg_mr(mr_), 0);
    if (cq_ != nullptr) CHECK_EQ(verbs.destroy_cq(cq_), 0);
    if (pd_ != nullptr) CHECK_EQ(verbs.dealloc_pd(pd_), 0);
    cm.destroy_event_channel(channel_);
  }

  rdma_cm_id* Create() {
    rdma_cm_id* created = nullptr;
    CHECK_EQ(cm.create_id(channel_, &created, this, RDMA_PS_UDP), 0);
    return created;
  }

  // The next event within ten seconds, of this type.
  rdma_cm_event* Expect(rdma_cm_event_type type) {
    pollfd wait = {channel_->fd, POLLIN, 0};
    CHECK_EQ(poll(&wait, 1, 10000), 1) << "no event, instead of " << type;
    rdma_cm_event* event = nullptr;
    CHECK_EQ(cm.get_cm_event(channel_, &event), 0);
    EXPECT_EQ(event->event, type) << "status " << event->status;
    return event;
  }
  void Skip(rdma_cm_event_type type) {
    EXPECT_EQ(cm.ack_cm_event(Expect(type)), 0);
  }

  base::SocketAddress Listen(absl::string_view address) {
    listener = Create();
    base::SocketAddress wanted = Address(address);
    EXPECT_EQ(cm.bind_addr(listener, wanted.mutable_get()), 0);
    EXPECT_EQ(cm.listen(listener, 0), 0);
    return base::SocketAddress::FromSockaddr(&listener->route.addr.src_addr);
  }

  void Resolve(base::SocketAddress peer) {
    id = Create();
    ASSERT_EQ(cm.resolve_addr(id, nullptr, peer.mutable_get(), 2000), 0);
    Skip(RDMA_CM_EVENT_ADDR_RESOLVED);
    ASSERT_EQ(cm.resolve_route(id, 2000), 0);
    Skip(RDMA_CM_EVENT_ROUTE_RESOLVED);
    CreateQp();
  }

  void CreateQp() {
    pd_ = verbs.alloc_pd(id->verbs);
    cq_ = verbs.create_cq(id->verbs, 16, nullptr, nullptr, 0);
    mr_ =
        verbs.reg_mr(pd_, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
    ibv_qp_init_attr attributes = {};
    attributes.send_cq = attributes.recv_cq = cq_;
    attributes.qp_type = IBV_QPT_UD;
    attributes.cap = {8, 8, 1, 1, 64};
    ASSERT_EQ(cm.create_qp(id, pd_, &attributes), 0);
  }

  int Ask(absl::string_view data) {
    rdma_conn_param parameters = {};
    parameters.private_data = data.data();
    parameters.private_data_len = static_cast<uint8_t>(data.size());
    return cm.connect(id, &parameters);
  }

  void Receive() {
    ibv_sge entry = {reinterpret_cast<uint64_t>(memory.data()),
                     static_cast<uint32_t>(memory.size()), mr_->lkey};
    ibv_recv_wr request = {};
    request.sg_list = &entry;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(id->qp, &request, &bad), 0);
  }

  void Send(const rdma_ud_param& to, absl::string_view text) {
    ibv_ah_attr path = to.ah_attr;
    ibv_ah* ah = CreateAh(pd_, &path);
    ASSERT_NE(ah, nullptr);
    ibv_sge entry = {reinterpret_cast<uint64_t>(text.data()),
                     static_cast<uint32_t>(text.size()), 0};
    ibv_send_wr request = {};
    request.sg_list = &entry;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_INLINE;
    request.wr.ud = {ah, to.qp_num, to.qkey};
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(id->qp, &request, &bad), 0);
    EXPECT_EQ(DestroyAh(ah), 0);
  }

  // The text of the next message.
  std::string Received() {
    ibv_wc completion = {};
    while (ibv_poll_cq(cq_, 1, &completion) == 0) {
    }
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
    return std::string(memory.data() + 40, completion.byte_len - 40);
  }

  const transport::CmOps cm = FullSoftProvider().cm;
  const transport::VerbsOps verbs = FullSoftProvider().verbs;
  rdma_cm_id* id = nullptr;
  rdma_cm_id* listener = nullptr;
  std::array<char, 256> memory = {};

 private:
  void Destroy(rdma_cm_id* which) {
    if (which->qp != nullptr) cm.destroy_qp(which);
    EXPECT_EQ(cm.destroy_id(which), 0);
  }

  rdma_event_channel* const channel_;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
};

std::string Data(const rdma_cm_event& event) {
  return static_cast<const char*>(event.param.ud.private_data);
}

// The server takes one question, and with it an identifier for the asker.
void TakeQuestion(End& server, const std::string& expected) {
  rdma_cm_event* request = server.Expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(request->listen_id, server.listener);
  EXPECT_EQ(request->param.ud.private_data_len, 180);
  EXPECT_EQ(Data(*request), expected);
  server.id = request->id;
  EXPECT_EQ(server.cm.ack_cm_event(request), 0);
}

void ExpectService(absl::string_view listen, absl::string_view dial) {
  End server;
  End client;
  base::SocketAddress peer = Address(dial);
  peer.set_port(server.Listen(listen).port());
  client.Resolve(peer);
  ASSERT_EQ(client.Ask("who"), 0);
  TakeQuestion(server, "who");
  server.CreateQp();
  server.Receive();
  rdma_conn_param answer = {};
  answer.private_data = "me";
  answer.private_data_len = 3;
  ASSERT_EQ(server.cm.accept(server.id, &answer), 0);
  rdma_cm_event* found = client.Expect(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(Data(*found), "me");
  EXPECT_EQ(found->param.ud.qp_num, server.id->qp->qp_num);
  EXPECT_EQ(found->param.ud.qkey, static_cast<uint32_t>(RDMA_UDP_QKEY));
  client.Send(found->param.ud, "hello");
  EXPECT_EQ(client.cm.ack_cm_event(found), 0);
  EXPECT_EQ(server.Received(), "hello");
}

TEST(DatagramManagerTest, AServiceAnswersWithItsQueuePair) {
  ExpectService("127.0.0.1:0", "127.0.0.1:0");
}

TEST(DatagramManagerTest, AServiceIsFoundAtAWildcard) {
  ExpectService("0.0.0.0:0", "127.0.0.1:0");
  ExpectService("[::]:0", "[::1]:0");
}

TEST(DatagramManagerTest, ARefusalIsToldWithItsReason) {
  End server;
  End client;
  client.Resolve(server.Listen("127.0.0.1:0"));
  ASSERT_EQ(client.Ask("who"), 0);
  TakeQuestion(server, "who");
  ASSERT_EQ(server.cm.reject(server.id, "no", 3), 0);
  rdma_cm_event* refused = client.Expect(RDMA_CM_EVENT_UNREACHABLE);
  EXPECT_EQ(refused->status, 2);  // As InfiniBand numbers it.
  EXPECT_EQ(Data(*refused), "no");
  EXPECT_EQ(client.cm.ack_cm_event(refused), 0);
}

TEST(DatagramManagerTest, WhereNobodyListensNobodyIsFound) {
  End client;
  client.Resolve(Address("127.0.0.1:9"));
  ASSERT_EQ(client.Ask("who"), 0);
  rdma_cm_event* refused = client.Expect(RDMA_CM_EVENT_UNREACHABLE);
  EXPECT_EQ(refused->status, 1);
  EXPECT_EQ(client.cm.ack_cm_event(refused), 0);
}

TEST(DatagramManagerTest, AQuestionThatIsNotAnsweredIsRefusedInTheEnd) {
  End server;
  End client;
  client.Resolve(server.Listen("127.0.0.1:0"));
  ASSERT_EQ(client.Ask("who"), 0);
  TakeQuestion(server, "who");
  EXPECT_EQ(server.cm.destroy_id(server.id), 0);
  server.id = nullptr;
  client.Skip(RDMA_CM_EVENT_UNREACHABLE);
}

TEST(DatagramManagerTest, AGroupIsJoinedAndLeft) {
  End end;
  base::SocketAddress group = Address("239.77.2.1:0");
  base::SocketAddress own = Address("127.0.0.1:0");
  end.id = end.Create();
  ASSERT_EQ(end.cm.bind_addr(end.id, own.mutable_get()), 0);
  end.CreateQp();
  end.Receive();
  ASSERT_EQ(JoinMulticast(end.id, group.mutable_get(), &end), 0);
  rdma_cm_event* joined = end.Expect(RDMA_CM_EVENT_MULTICAST_JOIN);
  EXPECT_EQ(joined->param.ud.private_data, &end);
  EXPECT_EQ(joined->param.ud.qp_num, kMulticastQueuePair);
  EXPECT_EQ(joined->param.ud.qkey, static_cast<uint32_t>(RDMA_UDP_QKEY));
  EXPECT_EQ(joined->param.ud.ah_attr.grh.dgid.raw[12], 239);
  end.Send(joined->param.ud, "to all");
  EXPECT_EQ(end.cm.ack_cm_event(joined), 0);
  EXPECT_EQ(end.Received(), "to all");
  EXPECT_EQ(LeaveMulticast(end.id, group.mutable_get()), 0);
  EXPECT_EQ(LeaveMulticast(end.id, group.mutable_get()), -1);
  EXPECT_EQ(errno, EADDRNOTAVAIL);
}

TEST(DatagramManagerTest, AnIdentifierThatGoesLeavesItsGroups) {
  End end;
  base::SocketAddress group = Address("239.77.2.2:0");
  base::SocketAddress own = Address("127.0.0.1:0");
  end.id = end.Create();
  ASSERT_EQ(end.cm.bind_addr(end.id, own.mutable_get()), 0);
  end.CreateQp();
  ASSERT_EQ(JoinMulticast(end.id, group.mutable_get(), nullptr), 0);
  end.Skip(RDMA_CM_EVENT_MULTICAST_JOIN);
}

}  // namespace
}  // namespace verbena::soft
