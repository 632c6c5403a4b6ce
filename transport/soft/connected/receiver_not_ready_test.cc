// What happens to messages that find no receive request posted.

#include <gtest/gtest.h>

#include <string>

#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

// Lets both ends run for a while without any completion.
void LetThemRetry(TestEnd& a, TestEnd& b) {
  EXPECT_TRUE(a.StaysQuiet(&b, 3000));
}

TEST(ReceiverNotReadyTest, ASendWaitsForAReceive) {
  TestEnd a;
  TestEnd b;
  ConnectByHand(a, b);
  a.Fill(0, "patience");
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  LetThemRetry(a, b);
  ASSERT_EQ(b.Receive(2, 0, 64), 0);
  EXPECT_EQ(b.Wait(&a).wr_id, 2u);
  EXPECT_EQ(b.Text(0, 8), "patience");
  EXPECT_EQ(a.Wait(&b).status, IBV_WC_SUCCESS);
}

TEST(ReceiverNotReadyTest, WhatFollowsTheRefusedSendComesAgainInOrder) {
  TestEnd a;
  TestEnd b;
  ConnectByHand(a, b);
  a.Fill(0, "first");
  a.Fill(100, "write");
  a.Fill(200, "third");
  b.Fill(1000, "reply");
  ASSERT_EQ(a.Send(1, 0, 5), 0);
  ASSERT_EQ(a.Write(2, 100, 5, b.Address(2000), b.mr->rkey), 0);
  ASSERT_EQ(a.Read(3, 300, 5, b.Address(1000), b.mr->rkey), 0);
  ASSERT_EQ(a.Send(4, 200, 5), 0);
  LetThemRetry(a, b);
  EXPECT_EQ(b.Text(2000, 5), std::string(5, '\0')) << "ran ahead of the send";
  ASSERT_EQ(b.Receive(1, 0, 64), 0);
  EXPECT_EQ(a.Wait(&b).wr_id, 1u);
  EXPECT_EQ(a.Wait(&b).wr_id, 2u);
  EXPECT_EQ(a.Wait(&b).wr_id, 3u);
  LetThemRetry(a, b);
  EXPECT_EQ(b.Wait(&a).wr_id, 1u);
  ASSERT_EQ(b.Receive(2, 64, 64), 0);
  EXPECT_EQ(a.Wait(&b).wr_id, 4u);
  EXPECT_EQ(b.Text(0, 5), "first");
  EXPECT_EQ(b.Text(2000, 5), "write");
  EXPECT_EQ(a.Text(300, 5), "reply");
  EXPECT_EQ(b.Text(64, 5), "third");
}

TEST(ReceiverNotReadyTest, ALongMessageStartsAgainFromItsBeginning) {
  TestEndOptions options;
  options.memory_bytes = 2 << 20;
  TestEnd a(options);
  TestEnd b(options);
  ConnectByHand(a, b);
  const std::string text(1'000'000, 'x');
  a.Fill(0, text);
  ASSERT_EQ(a.Send(1, 0, text.size()), 0);
  LetThemRetry(a, b);
  ASSERT_EQ(b.Receive(2, 0, text.size()), 0);
  EXPECT_EQ(b.Wait(&a).byte_len, text.size());
  EXPECT_TRUE(b.Text(0, text.size()) == text);
}

TEST(ReceiverNotReadyTest, InlineDataSurvivesTheWait) {
  TestEnd a;
  TestEnd b;
  ConnectByHand(a, b);
  a.Fill(0, "inline");
  ASSERT_EQ(a.Send(1, 0, 6, IBV_SEND_SIGNALED | IBV_SEND_INLINE), 0);
  a.Fill(0, "XXXXXX");
  LetThemRetry(a, b);
  ASSERT_EQ(b.Receive(2, 0, 64), 0);
  b.Wait(&a);
  EXPECT_EQ(b.Text(0, 6), "inline");
}

TEST(ReceiverNotReadyTest, AWriteWithImmediateWaitsToo) {
  TestEnd a;
  TestEnd b;
  ConnectByHand(a, b);
  a.Fill(0, "imm");
  ibv_sge entry = a.Entry(0, 3);
  ibv_send_wr request = {};
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.imm_data = 5;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma = {b.Address(50), b.mr->rkey};
  ASSERT_EQ(a.Post(request), 0);
  LetThemRetry(a, b);
  ASSERT_EQ(b.Receive(2, 0, 0), 0);
  EXPECT_EQ(b.Wait(&a).imm_data, 5u);
  EXPECT_EQ(b.Text(50, 3), "imm");
  EXPECT_EQ(a.Wait(&b).status, IBV_WC_SUCCESS);
}

TEST(ReceiverNotReadyTest, TheRetriesRunOut) {
  TestEndOptions options;
  options.rnr_retry = 2;
  TestEnd a(options);
  TestEnd b;
  ConnectByHand(a, b);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  ASSERT_EQ(a.Send(2, 0, 8), 0);
  EXPECT_EQ(a.Wait(&b).status, IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(a.Wait(&b).status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(a.State(), IBV_QPS_ERR);
  EXPECT_EQ(b.State(), IBV_QPS_RTS);  // The receiver has done nothing wrong.
}

TEST(ReceiverNotReadyTest, WithoutRetriesTheFirstRefusalIsTheEnd) {
  TestEndOptions options;
  options.rnr_retry = 0;
  TestEnd a(options);
  TestEndOptions slow;
  slow.min_rnr_timer = 31;  // Half a second: it is not waited for.
  TestEnd b(slow);
  ConnectByHand(a, b);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  EXPECT_EQ(a.Wait(&b).status, IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST(ReceiverNotReadyTest, ASuccessRestoresTheRetries) {
  TestEndOptions options;
  options.rnr_retry = 1;
  TestEnd a(options);
  TestEndOptions slow;
  slow.min_rnr_timer = 20;  // Ten milliseconds: time to post a receive.
  TestEnd b(slow);
  ConnectByHand(a, b);
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_EQ(a.Send(i, 0, 8), 0);
    b.StaysQuiet(&a, 10);  // Refused.
    ASSERT_EQ(b.Receive(i, 0, 8), 0);
    EXPECT_EQ(b.Wait(&a).wr_id, i);
    EXPECT_EQ(a.Wait(&b).status, IBV_WC_SUCCESS);
  }
}

TEST(ReceiverNotReadyTest, TheEngineRetriesWhenNobodyPolls) {
  TestEndOptions options;
  options.with_channel = true;
  TestEnd a(options);
  TestEnd b(options);
  ConnectByHand(a, b);
  ASSERT_EQ(ibv_req_notify_cq(b.cq, 0), 0);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  ASSERT_EQ(b.Receive(2, 0, 8), 0);
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  ASSERT_EQ(b.verbs.get_cq_event(b.channel, &cq, &cq_context), 0);
  b.verbs.ack_cq_events(cq, 1);
  EXPECT_EQ(b.Wait().wr_id, 2u);
}

}  // namespace
}  // namespace verbena::soft
