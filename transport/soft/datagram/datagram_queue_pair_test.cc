// Datagrams between queue pairs of one process: what arrives and what does not.

#include "transport/soft/datagram/datagram_queue_pair.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>

#include "transport/soft/base/limits.h"
#include "transport/soft/datagram/datagram_test_end.h"
#include "transport/soft/verbs/datagram_verbs.h"

namespace verbena::soft {
namespace {

constexpr size_t kGrh = kGlobalRouteBytes;

TEST(DatagramQueuePairTest, ImmediateDataAndTheServiceLevelArrive) {
  DatagramTestEnd a;
  DatagramTestEnd b;
  a.Start();
  b.Start();
  ASSERT_EQ(b.Receive(1, 0, 100), 0);
  ibv_ah_attr path = DatagramTestEnd::Path(b.Gid());
  path.sl = 5;
  ibv_ah* ah = CreateAh(a.pd, &path);
  ibv_send_wr request = {};
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.imm_data = 0x01020304;
  request.wr.ud = {ah, b.qp->qp_num, kTestQkey};
  ASSERT_EQ(a.Post(request), 0);
  EXPECT_EQ(DestroyAh(ah), 0);
  const ibv_wc received = b.Wait();
  EXPECT_EQ(received.wc_flags,
            static_cast<unsigned int>(IBV_WC_GRH | IBV_WC_WITH_IMM));
  EXPECT_EQ(received.imm_data, 0x01020304u);
  EXPECT_EQ(received.sl, 5);
  EXPECT_EQ(received.byte_len, kGrh);
}

TEST(DatagramQueuePairTest, TheLongestMessageIsThePathMtu) {
  DatagramTestEnd a;
  DatagramTestEnd b;
  a.Start();
  b.Start();
  ASSERT_EQ(b.Receive(1, 0, 8192), 0);
  // Longer ones vanish, and their senders are not told (C10-93.1.1).
  ASSERT_EQ(a.SendTo(b, 1, 0, kDatagramPayloadMax + 1), 0);
  EXPECT_EQ(a.Wait().status, IBV_WC_SUCCESS);
  ASSERT_EQ(a.SendTo(b, 2, 0, kDatagramPayloadMax), 0);
  EXPECT_EQ(a.Wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(b.Wait().byte_len, kGrh + kDatagramPayloadMax);
  EXPECT_TRUE(b.StaysQuiet(nullptr));
}

TEST(DatagramQueuePairTest, AWrongKeyIsNotHeard) {
  DatagramTestEnd a;
  DatagramTestEnd b;
  a.Start(0x22222222);
  b.Start();
  ASSERT_EQ(b.Receive(1, 0, 100), 0);
  DatagramTestEnd::Datagram datagram = {.ah = a.To(b.Gid()),
                                        .number = b.qp->qp_num,
                                        .length = 1,
                                        .qkey = kTestQkey + 1};
  ASSERT_EQ(a.SendDatagram(datagram), 0);
  EXPECT_EQ(a.Wait().status, IBV_WC_SUCCESS);
  // The top bit means the sender's own, which is wrong here too.
  datagram.qkey = 0x80000000 | kTestQkey;
  ASSERT_EQ(a.SendDatagram(datagram), 0);
  EXPECT_EQ(a.Wait().status, IBV_WC_SUCCESS);
  EXPECT_TRUE(b.StaysQuiet(&a));
}

TEST(DatagramQueuePairTest, AMessageTooLongForItsReceiveEndsTheReceiver) {
  DatagramTestEnd a;
  DatagramTestEnd b;
  a.Start();
  b.Start();
  ASSERT_EQ(b.Receive(1, 0, kGrh + 9), 0);
  ASSERT_EQ(b.Receive(2, 0, 100), 0);
  ASSERT_EQ(a.SendTo(b, 1, 0, 10), 0);
  ibv_wc received = b.Wait();
  EXPECT_EQ(received.status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(received.wr_id, 1u);
  EXPECT_EQ(b.State(), IBV_QPS_ERR);
  EXPECT_EQ(b.Wait().status, IBV_WC_WR_FLUSH_ERR);
}

TEST(DatagramQueuePairTest, ABadMemoryKeyStopsTheSendQueueOnly) {
  DatagramTestEnd a;
  DatagramTestEnd b;
  a.Start();
  b.Start();
  ibv_sge entry = {a.Address(0), 8, a.mr->lkey + 1};
  ibv_send_wr request = {};
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.wr.ud = {a.To(b.Gid()), b.qp->qp_num, kTestQkey};
  ASSERT_EQ(a.Post(request), 0);
  EXPECT_EQ(a.Wait().status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(a.State(), IBV_QPS_SQE);
  ASSERT_EQ(a.SendTo(b, 1, 0, 8), 0);
  EXPECT_EQ(a.Wait().status, IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(a.Receive(5, 0, 100), 0);
  ASSERT_EQ(b.SendTo(a, 1, 0, 8), 0);
  EXPECT_EQ(a.Wait().wr_id, 5u);
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(a.verbs.modify_qp(a.qp, &attributes, IBV_QP_STATE), 0);
  ASSERT_EQ(a.SendTo(b, 2, 0, 8), 0);
  EXPECT_EQ(a.Wait().status, IBV_WC_SUCCESS);
}

TEST(DatagramQueuePairTest, ADrainedQueueSendsWhenItIsStartedAgain) {
  DatagramTestEnd a;
  DatagramTestEnd b;
  a.Start();
  b.Start();
  ASSERT_EQ(b.Receive(1, 0, 100), 0);
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_SQD;
  attributes.en_sqd_async_notify = 1;
  ASSERT_EQ(a.verbs.modify_qp(a.qp, &attributes,
                              IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
            0);
  ibv_async_event event;
  ASSERT_EQ(a.verbs.get_async_event(a.context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_SQ_DRAINED);
  a.verbs.ack_async_event(&event);
  ASSERT_EQ(a.SendTo(b, 1, 0, 8), 0);
  EXPECT_TRUE(a.StaysQuiet(&b));
  attributes.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(a.verbs.modify_qp(a.qp, &attributes, IBV_QP_STATE), 0);
  EXPECT_EQ(b.Wait().byte_len, kGrh + 8);
}

TEST(DatagramQueuePairTest, ASharedReceiveQueueServesIt) {
  TestEndOptions options;
  options.shared_receives = 4;
  DatagramTestEnd a;
  DatagramTestEnd b(options);
  a.Start();
  b.Start();
  ASSERT_EQ(b.Receive(9, 0, 100), 0);
  a.Fill(0, "shared");
  ASSERT_EQ(a.SendTo(b, 1, 0, 6), 0);
  EXPECT_EQ(b.Wait().wr_id, 9u);
  EXPECT_EQ(b.Text(kGrh, 6), "shared");
}

TEST(DatagramQueuePairTest, ABurstIsHeldUpRatherThanLost) {
  TestEndOptions options;
  options.send_depth = options.receive_depth = 256;
  options.completions = 512;
  DatagramTestEnd a(options);
  DatagramTestEnd b(options);
  a.Start();
  b.Start();
  ibv_ah* ah = a.To(b.Gid());
  for (uint64_t i = 0; i < 256; ++i) ASSERT_EQ(b.Receive(i, 0, 4200), 0);
  for (uint64_t i = 0; i < 256; ++i) {
    ASSERT_EQ(
        a.SendDatagram(
            {.ah = ah, .number = b.qp->qp_num, .wr_id = i, .length = 4096}),
        0);
  }
  for (uint64_t i = 0; i < 256; ++i) ASSERT_EQ(b.Wait(&a).wr_id, i);
}

TEST(DatagramQueuePairTest, TheSendQueueIsFullUntilCompletionsArePolled) {
  TestEndOptions options;
  options.send_depth = 2;
  DatagramTestEnd a(options);
  DatagramTestEnd b;
  a.Start();
  b.Start();
  ASSERT_EQ(a.SendTo(b, 1, 0, 1, 0), 0);
  ASSERT_EQ(a.SendTo(b, 2, 0, 1), 0);
  EXPECT_EQ(a.SendTo(b, 3, 0, 1), ENOMEM);
  EXPECT_EQ(a.Wait().wr_id, 2u);
  EXPECT_EQ(a.SendTo(b, 3, 0, 1), 0);
}

TEST(DatagramQueuePairTest, AnArmedQueueRaisesAnEventThoughNobodyPolls) {
  TestEndOptions options;
  options.with_channel = true;
  DatagramTestEnd a;
  DatagramTestEnd b(options);
  a.Start();
  b.Start();
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(b.Receive(round, 0, 100), 0);
    ASSERT_EQ(ibv_req_notify_cq(b.cq, 0), 0);
    ASSERT_EQ(a.SendTo(b, 1, 0, 8), 0);
    pollfd wait = {b.channel->fd, POLLIN, 0};
    ASSERT_EQ(poll(&wait, 1, 10000), 1);
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    ASSERT_EQ(b.verbs.get_cq_event(b.channel, &cq, &cq_context), 0);
    b.verbs.ack_cq_events(cq, 1);
    EXPECT_EQ(b.Wait().wr_id, static_cast<uint64_t>(round));
    EXPECT_EQ(a.Wait().status, IBV_WC_SUCCESS);
    a.RunProtocol();
  }
}

TEST(DatagramQueuePairTest, OnlySolicitedMessagesWakeThoseWhoAskForThem) {
  TestEndOptions options;
  options.with_channel = true;
  DatagramTestEnd a;
  DatagramTestEnd b(options);
  a.Start();
  b.Start();
  ASSERT_EQ(b.Receive(1, 0, 100), 0);
  ASSERT_EQ(b.Receive(2, 0, 100), 0);
  ASSERT_EQ(ibv_req_notify_cq(b.cq, 1), 0);
  ASSERT_EQ(a.SendTo(b, 1, 0, 8), 0);
  ASSERT_EQ(b.Wait().wr_id, 1u);
  pollfd wait = {b.channel->fd, POLLIN, 0};
  EXPECT_EQ(poll(&wait, 1, 0), 0);
  ASSERT_EQ(a.SendTo(b, 1, 0, 8, IBV_SEND_SOLICITED), 0);
  EXPECT_EQ(poll(&wait, 1, 10000), 1);
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  ASSERT_EQ(b.verbs.get_cq_event(b.channel, &cq, &cq_context), 0);
  b.verbs.ack_cq_events(cq, 1);
}

TEST(DatagramQueuePairTest, RequestsThatAreNoDatagramsAreRefused) {
  DatagramTestEnd a;
  a.Start();
  ibv_send_wr request = {};
  request.opcode = IBV_WR_SEND;
  EXPECT_EQ(a.Post(request), EINVAL);  // To nobody.
  request.wr.ud = {a.To(a.Gid()), 1u << 24, kTestQkey};
  EXPECT_EQ(a.Post(request), EINVAL);
  request.wr.ud.remote_qpn = 5;
  request.opcode = IBV_WR_RDMA_WRITE;
  EXPECT_EQ(a.Post(request), EINVAL);
}

TEST(DatagramQueuePairTest, PostingFollowsTheState) {
  DatagramTestEnd a;
  EXPECT_EQ(a.Receive(1, 0, 100), EINVAL);
  EXPECT_EQ(a.SendTo(a, 1, 0, 1), EINVAL);
  ASSERT_EQ(a.ToInit(), 0);
  EXPECT_EQ(a.Receive(1, 0, 100), 0);
  ASSERT_EQ(a.ToReadyToReceive(), 0);
  EXPECT_EQ(a.SendTo(a, 1, 0, 1), EINVAL);
  ASSERT_EQ(a.ToReadyToSend(), 0);
  ASSERT_EQ(a.SendTo(a, 1, 0, 1, 0), 0);
  EXPECT_EQ(a.Wait().wr_id, 1u);
  ASSERT_EQ(a.ToError(), 0);
  EXPECT_EQ(a.Receive(2, 0, 100), 0);
  EXPECT_EQ(a.Wait().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(a.SendTo(a, 3, 0, 1), 0);
  EXPECT_EQ(a.Wait().status, IBV_WC_WR_FLUSH_ERR);
}

TEST(DatagramQueuePairTest, ItStartsAgainAfterReset) {
  DatagramTestEnd a;
  DatagramTestEnd b;
  b.Start();
  for (int round = 0; round < 3; ++round) {
    a.Start();
    ASSERT_EQ(a.Receive(1, 0, 100), 0);
    ASSERT_EQ(b.SendTo(a, 1, 0, 4), 0);
    EXPECT_EQ(b.Wait().status, IBV_WC_SUCCESS);
    EXPECT_EQ(a.Wait().status, IBV_WC_SUCCESS);
    ASSERT_EQ(a.ToReset(), 0);
  }
}

TEST(DatagramQueuePairTest, QueryTellsWhatWasSet) {
  DatagramTestEnd a;
  a.Start(0x1234);
  ibv_qp_attr attributes;
  ibv_qp_init_attr init;
  ASSERT_EQ(a.verbs.query_qp(a.qp, &attributes, 0, &init), 0);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attributes.qkey, 0x1234u);
  EXPECT_EQ(attributes.port_num, 1);
  EXPECT_EQ(init.qp_type, IBV_QPT_UD);
}

}  // namespace
}  // namespace verbena::soft
