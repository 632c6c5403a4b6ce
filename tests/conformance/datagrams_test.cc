// Datagrams: what arrives, with what in front of it, and what does not.

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "tests/conformance/differences.h"
#include "tests/conformance/end.h"

namespace verbena::conformance {
namespace {

class DatagramsTest : public testing::Test {
 protected:
  DatagramsTest() {
    a.peer = &b;
    b.peer = &a;
  }

  // A message of a to b with this key has gone, and b has not heard it.
  void ExpectUnheard(uint32_t qkey) {
    ASSERT_EQ(a.SendDatagram({.ah = a.Handle(b.gid.gid),
                              .number = b.qp->qp_num,
                              .wr_id = 1,
                              .length = 1,
                              .qkey = qkey}),
              0);
    EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
    EXPECT_TRUE(b.StaysQuiet());
  }

  DatagramEnd a;
  DatagramEnd b;
};

TEST_F(DatagramsTest, AMessageArrivesBehindTheGlobalRoute) {
  a.Fill(0, "hello");
  ASSERT_EQ(b.Receive(7, 1000, 100), 0);
  ASSERT_EQ(a.SendTo(b, 3, 0, 5), 0);
  const ibv_wc sent = a.Wait();
  EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
  EXPECT_EQ(sent.opcode, IBV_WC_SEND);
  EXPECT_EQ(sent.wr_id, 3u);
  const ibv_wc received = b.Wait();
  EXPECT_EQ(received.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  EXPECT_EQ(received.wr_id, 7u);
  EXPECT_EQ(received.byte_len, kGrhBytes + 5);
  EXPECT_EQ(received.qp_num, b.qp->qp_num);
  EXPECT_EQ(received.src_qp, a.qp->qp_num);
  EXPECT_NE(received.wc_flags & IBV_WC_GRH, 0u);
  EXPECT_EQ(b.Text(1000 + kGrhBytes, 5), "hello");
}

TEST_F(DatagramsTest, TheGlobalRouteNamesBothAddresses) {
  ASSERT_EQ(b.Receive(7, 0, 100), 0);
  ASSERT_EQ(a.SendTo(b, 3, 0, 5), 0);
  ASSERT_EQ(b.Outcome(7), IBV_WC_SUCCESS);
  // With IPv4 the last bytes of the GRH are the IP header.
  EXPECT_EQ(std::memcmp(b.memory + kGrhBytes - 8, a.gid.gid.raw + 12, 4), 0);
  EXPECT_EQ(std::memcmp(b.memory + kGrhBytes - 4, b.gid.gid.raw + 12, 4), 0);
}

TEST_F(DatagramsTest, TheReceiverCanAnswerWhoeverSent) {
  ASSERT_EQ(b.Receive(1, 0, 100), 0);
  ASSERT_EQ(a.Receive(2, 0, 100), 0);
  ASSERT_EQ(a.SendTo(b, 3, 200, 10), 0);
  ibv_wc received = b.Wait();
  ASSERT_EQ(received.status, IBV_WC_SUCCESS);
  ibv_ah* const back = Verbs().create_ah_from_wc(
      b.pd, &received, reinterpret_cast<ibv_grh*>(b.memory), kPort);
  ASSERT_NE(back, nullptr) << "errno " << errno;
  b.Fill(500, "back");
  ASSERT_EQ(b.SendDatagram({.ah = back,
                            .number = received.src_qp,
                            .wr_id = 4,
                            .offset = 500,
                            .length = 4}),
            0);
  EXPECT_EQ(b.Outcome(4), IBV_WC_SUCCESS);
  EXPECT_EQ(Verbs().destroy_ah(back), 0);
  EXPECT_EQ(a.Outcome(3), IBV_WC_SUCCESS);
  EXPECT_EQ(a.Wait().byte_len, kGrhBytes + 4);
  EXPECT_EQ(a.Text(kGrhBytes, 4), "back");
}

TEST_F(DatagramsTest, TheWayBackIsThatToTheSender) {
  ASSERT_EQ(b.Receive(1, 0, 100), 0);
  ASSERT_EQ(a.SendTo(b, 3, 200, 10), 0);
  ibv_wc received = b.Wait();
  ibv_ah_attr way = {};
  ASSERT_EQ(Verbs().init_ah_from_wc(b.context, kPort, &received,
                                    reinterpret_cast<ibv_grh*>(b.memory), &way),
            0);
  EXPECT_EQ(way.is_global, 1);
  EXPECT_EQ(way.port_num, kPort);
  EXPECT_EQ(way.grh.sgid_index, b.gid.index);
  EXPECT_EQ(std::memcmp(&way.grh.dgid, &a.gid.gid, sizeof(ibv_gid)), 0);
}

TEST_F(DatagramsTest, ImmediateDataArrives) {
  ASSERT_EQ(b.Receive(1, 0, 100), 0);
  ibv_send_wr request = {};
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.imm_data = htonl(0x01020304);
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.ud = {a.Handle(b.gid.gid), b.qp->qp_num, kTestQkey};
  ASSERT_EQ(a.Post(request), 0);
  const ibv_wc received = b.Wait();
  EXPECT_NE(received.wc_flags & IBV_WC_WITH_IMM, 0u);
  EXPECT_EQ(received.imm_data, htonl(0x01020304));
  EXPECT_EQ(received.byte_len, kGrhBytes);
}

TEST_F(DatagramsTest, TheServiceLevelArrives) {
  ASSERT_EQ(b.Receive(1, 0, 100), 0);
  ibv_ah_attr path = a.Path(b.gid.gid);
  path.sl = 5;
  ibv_ah* const ah = Verbs().create_ah(a.pd, &path);
  ASSERT_NE(ah, nullptr);
  ASSERT_EQ(a.SendDatagram(
                {.ah = ah, .number = b.qp->qp_num, .wr_id = 2, .length = 1}),
            0);
  EXPECT_EQ(a.Outcome(2), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Wait().sl, Keeps(Promise::kServiceLevelsArrive) ? 5 : 0);
  EXPECT_EQ(Verbs().destroy_ah(ah), 0);
}

TEST_F(DatagramsTest, InlineDataMayChangeAtOnce) {
  ASSERT_EQ(b.Receive(1, 0, 100), 0);
  a.Fill(0, "first");
  ASSERT_EQ(a.SendDatagram({.ah = a.Handle(b.gid.gid),
                            .number = b.qp->qp_num,
                            .length = 5,
                            .flags = IBV_SEND_INLINE}),
            0);
  a.Fill(0, "other");
  ASSERT_EQ(b.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Text(kGrhBytes, 5), "first");
}

TEST_F(DatagramsTest, AMessageMayBeAsLongAsThePathAllowsAndNoLonger) {
  ibv_port_attr port = {};
  ASSERT_EQ(Verbs().query_port(a.context, kPort, &port), 0);
  const size_t longest = size_t{128} << port.active_mtu;
  a.Fill(0, std::string(longest, 'm'));
  ASSERT_EQ(b.Receive(7, 0, 10'000), 0);
  // The sender of a longer one is not told.
  ASSERT_EQ(a.SendTo(b, 1, 0, longest + 1), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_TRUE(b.StaysQuiet());
  ASSERT_EQ(a.SendTo(b, 2, 0, longest), 0);
  EXPECT_EQ(a.Outcome(2), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Wait().byte_len, kGrhBytes + longest);
  EXPECT_TRUE(b.Text(kGrhBytes, longest) == std::string(longest, 'm'));
}

TEST_F(DatagramsTest, AWrongQkeyIsNotHeard) {
  ASSERT_EQ(b.Receive(1, 0, 100), 0);
  ExpectUnheard(kTestQkey + 1);
  ASSERT_EQ(a.SendTo(b, 2, 0, 1), 0);
  EXPECT_EQ(b.Outcome(1), IBV_WC_SUCCESS);
}

TEST_F(DatagramsTest, TheTopBitOfAQkeyMeansTheSendersOwn) {
  ASSERT_EQ(b.Receive(1, 0, 100), 0);
  ASSERT_EQ(a.SendDatagram({.ah = a.Handle(b.gid.gid),
                            .number = b.qp->qp_num,
                            .length = 1,
                            .qkey = 0x80000000}),
            0);
  if (Keeps(Promise::kTopBitOfAQkeyMeansTheSendersOwn)) {
    EXPECT_EQ(b.Outcome(1), IBV_WC_SUCCESS);
  } else {
    EXPECT_TRUE(b.StaysQuiet());
  }
}

TEST_F(DatagramsTest, AWrongKeyOfTheSendersOwnIsNotHeard) {
  ASSERT_EQ(b.Receive(1, 0, 100), 0);
  ibv_qp_attr attributes = {};
  attributes.qkey = kTestQkey + 1;
  ASSERT_EQ(Verbs().modify_qp(a.qp, &attributes, IBV_QP_QKEY), 0);
  ExpectUnheard(0x80000000 | kTestQkey);
}

TEST_F(DatagramsTest, WithoutAReceiveItIsLost) {
  ExpectUnheard(kTestQkey);
  ASSERT_EQ(b.Receive(1, 0, 100), 0);
  EXPECT_TRUE(b.StaysQuiet());
}

TEST_F(DatagramsTest, NobodyNeedBeThere) {
  const uint32_t number = b.qp->qp_num;
  ASSERT_EQ(Verbs().destroy_qp(b.qp), 0);
  b.qp = nullptr;
  ASSERT_EQ(a.SendDatagram({.ah = a.Handle(b.gid.gid),
                            .number = number,
                            .wr_id = 1,
                            .length = 1}),
            0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(a.State(), IBV_QPS_RTS);
}

TEST_F(DatagramsTest, ANumberHasTwentyFourBits) {
  ASSERT_EQ(a.SendDatagram({.ah = a.Handle(b.gid.gid),
                            .number = 0xfffffffe,
                            .wr_id = 1,
                            .length = 1}),
            0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
}

// NICs take of a handle where it leads and not whose it is.
TEST_F(DatagramsTest, AHandleMayBeOfAnotherDomain) {
  ibv_pd* const pd = Verbs().alloc_pd(a.context);
  ibv_ah_attr path = a.Path(b.gid.gid);
  ibv_ah* const ah = Verbs().create_ah(pd, &path);
  ASSERT_NE(ah, nullptr);
  ASSERT_EQ(b.Receive(7, 0, 100), 0);
  ASSERT_EQ(a.SendDatagram(
                {.ah = ah, .number = b.qp->qp_num, .wr_id = 1, .length = 4}),
            0);
  if (Keeps(Promise::kAHandleMayBeOfAnotherDomain)) {
    EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
    EXPECT_EQ(b.Outcome(7), IBV_WC_SUCCESS);
  } else {
    EXPECT_EQ(a.Outcome(1), IBV_WC_LOC_QP_OP_ERR);
  }
  EXPECT_EQ(Verbs().destroy_ah(ah), 0);
  EXPECT_EQ(Verbs().dealloc_pd(pd), 0);
}

TEST_F(DatagramsTest, AMessageTooLongForItsReceiveEndsTheReceiver) {
  ASSERT_EQ(b.Receive(1, 0, kGrhBytes + 9), 0);
  ASSERT_EQ(b.Receive(2, 0, 100), 0);
  ASSERT_EQ(a.SendTo(b, 1, 0, 10), 0);
  EXPECT_EQ(b.Outcome(1),
            Keeps(Promise::kReceiverNamesWhatWasWrongWithItsReceive)
                ? IBV_WC_LOC_LEN_ERR
                : IBV_WC_LOC_QP_OP_ERR);
  EXPECT_EQ(b.State(), IBV_QPS_ERR);
  EXPECT_EQ(b.Outcome(2), IBV_WC_WR_FLUSH_ERR);
}

TEST_F(DatagramsTest, AKeyThatIsNoneStopsTheSendQueueOnly) {
  ibv_sge entry = {a.Address(0), 8, a.mr->lkey ^ 0x55};
  ibv_send_wr request = {};
  request.wr_id = 1;
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.wr.ud = {a.Handle(b.gid.gid), b.qp->qp_num, kTestQkey};
  ASSERT_EQ(a.Post(request), 0);
  EXPECT_EQ(a.Outcome(1), Keeps(Promise::kLocalKeyThatIsNoneIsAProtectionError)
                              ? IBV_WC_LOC_PROT_ERR
                              : IBV_WC_LOC_QP_OP_ERR);
  if (!Keeps(Promise::kADatagramErrorStopsTheSendQueueOnly)) {
    EXPECT_EQ(a.State(), IBV_QPS_ERR);
    return;
  }
  EXPECT_EQ(a.State(), IBV_QPS_SQE);
  ASSERT_EQ(a.SendTo(b, 2, 0, 8), 0);
  EXPECT_EQ(a.Outcome(2), IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(a.Receive(5, 0, 100), 0);
  ASSERT_EQ(b.SendTo(a, 3, 0, 8), 0);
  EXPECT_EQ(a.Outcome(5), IBV_WC_SUCCESS);
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(Verbs().modify_qp(a.qp, &attributes, IBV_QP_STATE), 0);
  ASSERT_EQ(a.SendTo(b, 4, 0, 8), 0);
  EXPECT_EQ(a.Outcome(4), IBV_WC_SUCCESS);
}

TEST_F(DatagramsTest, PostingFollowsTheState) {
  ASSERT_EQ(a.To(IBV_QPS_RESET), 0);
  EXPECT_EQ(a.Receive(1, 0, 100), EINVAL);
  EXPECT_EQ(a.SendTo(b, 1, 0, 1), EINVAL);
  ASSERT_EQ(a.To(IBV_QPS_INIT), 0);
  EXPECT_EQ(a.Receive(1, 0, 100), 0);
  ASSERT_EQ(a.To(IBV_QPS_RTR), 0);
  EXPECT_EQ(a.SendTo(b, 1, 0, 1), EINVAL);
  ASSERT_EQ(a.To(IBV_QPS_RTS), 0);
  ASSERT_EQ(b.SendTo(a, 2, 0, 1), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
}

TEST_F(DatagramsTest, WhatIsPostedInErrorIsFlushed) {
  ASSERT_EQ(a.To(IBV_QPS_ERR), 0);
  ASSERT_EQ(a.SendTo(b, 3, 0, 1), 0);
  EXPECT_EQ(a.Outcome(3), IBV_WC_WR_FLUSH_ERR);
}

TEST_F(DatagramsTest, ItStartsAgainAfterReset) {
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(a.Receive(1, 0, 100), 0);
    ASSERT_EQ(b.SendTo(a, 2, 0, 4), 0);
    EXPECT_EQ(b.Outcome(2), IBV_WC_SUCCESS);
    EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
    ASSERT_EQ(a.To(IBV_QPS_RESET), 0);
    a.BringTo(IBV_QPS_RTS);
  }
}

TEST_F(DatagramsTest, AnArmedQueueRaisesAnEventThoughNobodyPolls) {
  EndOptions options;
  options.with_channel = true;
  DatagramEnd sleeper(options);
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(sleeper.Receive(1, 0, 100), 0);
    ASSERT_EQ(ibv_req_notify_cq(sleeper.cq, 0), 0);
    ASSERT_EQ(a.SendTo(sleeper, 2, 0, 8), 0);
    sleeper.TakeCompletionEvent();
    EXPECT_EQ(sleeper.Outcome(1), IBV_WC_SUCCESS);
    EXPECT_EQ(a.Outcome(2), IBV_WC_SUCCESS);
  }
}

TEST_F(DatagramsTest, OnlySolicitedMessagesWakeThoseWhoAskForThem) {
  EndOptions options;
  options.with_channel = true;
  DatagramEnd sleeper(options);
  for (int i = 1; i <= 2; ++i) ASSERT_EQ(sleeper.Receive(i, 0, 100), 0);
  ASSERT_EQ(ibv_req_notify_cq(sleeper.cq, 1), 0);
  ASSERT_EQ(a.SendTo(sleeper, 1, 0, 8), 0);
  EXPECT_EQ(sleeper.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_FALSE(sleeper.ChannelIsReadable(false));
  ASSERT_EQ(a.SendDatagram({.ah = a.Handle(sleeper.gid.gid),
                            .number = sleeper.qp->qp_num,
                            .length = 8,
                            .flags = IBV_SEND_SOLICITED}),
            0);
  sleeper.TakeCompletionEvent();
}

TEST_F(DatagramsTest, ARequestOfAConnectionIsNotDone) {
  b.Fill(0, "keep");
  ibv_sge entry = a.Entry(0, 8);
  ibv_send_wr request = {};
  request.wr_id = 1;
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.ud = {a.Handle(b.gid.gid), b.qp->qp_num, kTestQkey};
  ASSERT_EQ(a.Post(request), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_LOC_QP_OP_ERR);
  EXPECT_EQ(b.Text(0, 4), "keep");
}

TEST_F(DatagramsTest, ASharedReceiveQueueServesThem) {
  EndOptions options;
  options.shared_receives = 4;
  DatagramEnd shared(options);
  a.peer = &shared;
  shared.peer = &a;
  ASSERT_EQ(shared.Receive(9, 0, 100), 0);
  a.Fill(0, "shared");
  ASSERT_EQ(a.SendTo(shared, 1, 0, 6), 0);
  EXPECT_EQ(shared.Outcome(9), IBV_WC_SUCCESS);
  EXPECT_EQ(shared.Text(kGrhBytes, 6), "shared");
  a.peer = &b;
  shared.peer = nullptr;
}

TEST_F(DatagramsTest, AHandleNeedsAGidOfTheDevice) {
  ibv_port_attr port = {};
  ASSERT_EQ(Verbs().query_port(a.context, kPort, &port), 0);
  ibv_ah_attr path = a.Path(b.gid.gid);
  path.grh.sgid_index = static_cast<uint8_t>(port.gid_tbl_len - 1);
  EXPECT_EQ(Verbs().create_ah(a.pd, &path), nullptr) << "an unused entry";
  path = a.Path(b.gid.gid);
  path.port_num = kPort + 100;
  EXPECT_EQ(Verbs().create_ah(a.pd, &path), nullptr);
}

TEST_F(DatagramsTest, AFlowLabelHasTwentyBitsAndTheOthersAreIgnored) {
  ibv_ah_attr path = a.Path(b.gid.gid);
  path.grh.flow_label = 0xfff12345;
  ibv_ah* const ah = Verbs().create_ah(a.pd, &path);
  ASSERT_NE(ah, nullptr) << "errno " << errno;
  ASSERT_EQ(b.Receive(7, 0, 100), 0);
  ASSERT_EQ(a.SendDatagram(
                {.ah = ah, .number = b.qp->qp_num, .wr_id = 1, .length = 4}),
            0);
  EXPECT_EQ(b.Outcome(7), IBV_WC_SUCCESS);
  EXPECT_EQ(Verbs().destroy_ah(ah), 0);
}

TEST_F(DatagramsTest, ADomainWithAHandleIsBusy) {
  ibv_pd* const pd = Verbs().alloc_pd(a.context);
  ibv_ah_attr path = a.Path(b.gid.gid);
  ibv_ah* const ah = Verbs().create_ah(pd, &path);
  ASSERT_NE(ah, nullptr);
  EXPECT_EQ(Verbs().dealloc_pd(pd), EBUSY);
  EXPECT_EQ(Verbs().destroy_ah(ah), 0);
  EXPECT_EQ(Verbs().dealloc_pd(pd), 0);
}

// Multicast.

ibv_gid Group(const char* address) {
  ibv_gid group = {};
  group.raw[10] = group.raw[11] = 0xff;
  inet_pton(AF_INET, address, group.raw + 12);
  return group;
}

TEST_F(DatagramsTest, AMemberHearsWhatIsSentToItsGroupUntilItLeaves) {
  const ibv_gid group = Group("239.77.2.1");
  const DatagramEnd::Datagram datagram = {
      .ah = a.Handle(group), .number = 0xffffff, .wr_id = 1, .length = 6};
  a.Fill(0, "to all");
  ASSERT_EQ(Verbs().attach_mcast(b.qp, &group, 0), 0);
  ASSERT_EQ(b.Receive(7, 0, 100), 0);
  ASSERT_EQ(a.SendDatagram(datagram), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  const bool heard = Keeps(Promise::kAGroupIsHeardOnItsOwnDevice);
  if (heard) {
    const ibv_wc received = b.Wait();
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.byte_len, kGrhBytes + 6);
    EXPECT_EQ(received.src_qp, a.qp->qp_num);
    EXPECT_EQ(b.Text(kGrhBytes, 6), "to all");
    ASSERT_EQ(b.Receive(8, 0, 100), 0);
  } else {
    EXPECT_TRUE(b.StaysQuiet());
  }
  EXPECT_EQ(Verbs().detach_mcast(b.qp, &group, 0), 0);
  ASSERT_EQ(a.SendDatagram(datagram), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_TRUE(b.StaysQuiet());
}

// InfiniBand has groups of scopes that IPv6 has not.
TEST_F(DatagramsTest, AGroupMayBeOfAnyScope) {
  for (int scope = 0; scope <= 15; ++scope) {
    SCOPED_TRACE(scope);
    ibv_gid group = {};
    group.raw[0] = 0xff;
    group.raw[1] = static_cast<uint8_t>(0x10 | scope);
    group.raw[15] = 0x77;
    EXPECT_EQ(Verbs().attach_mcast(b.qp, &group, 0), 0);
    EXPECT_EQ(Verbs().detach_mcast(b.qp, &group, 0), 0);
  }
}

TEST_F(DatagramsTest, AGroupIsLeftOnce) {
  const ibv_gid group = Group("239.77.2.2");
  ASSERT_EQ(Verbs().attach_mcast(b.qp, &group, 0), 0);
  EXPECT_EQ(Verbs().detach_mcast(b.qp, &group, 0), 0);
  EXPECT_EQ(Verbs().detach_mcast(b.qp, &group, 0), EINVAL);
}

TEST_F(DatagramsTest, AnAddressOfAHostIsNoGroup) {
  const ibv_gid host = Group("10.1.2.3");
  EXPECT_EQ(Verbs().attach_mcast(b.qp, &host, 0), EINVAL);
}

TEST(MulticastTest, AConnectedQueuePairJoinsNoGroup) {
  const ibv_gid group = Group("239.77.2.3");
  End connected;
  EXPECT_EQ(Verbs().attach_mcast(connected.qp, &group, 0), EINVAL);
}

}  // namespace
}  // namespace verbena::conformance
