// Unreliable connections: what arrives, what is lost, and who is told.

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

TestEndOptions Unreliable() {
  TestEndOptions options;
  options.type = IBV_QPT_UC;
  options.access |= IBV_ACCESS_REMOTE_ATOMIC;
  options.memory_bytes = 2 << 20;
  return options;
}

class UnreliableTest : public testing::Test {
 protected:
  UnreliableTest() { ConnectByHand(a, b); }

  // A request of a over its first `length` bytes.
  ibv_send_wr Request(ibv_wr_opcode opcode, size_t length) {
    entry = a.Entry(0, length);
    ibv_send_wr request = {};
    request.sg_list = &entry;
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    return request;
  }
  void ExpectSent() { EXPECT_EQ(a.Wait().status, IBV_WC_SUCCESS); }
  // That b still takes messages.
  void ExpectNextArrives(uint64_t wr_id) {
    a.Fill(1000, "next");
    ASSERT_EQ(a.Send(1, 1000, 4), 0);
    ExpectSent();
    const ibv_wc received = b.Wait(&a);
    EXPECT_EQ(received.wr_id, wr_id);
    EXPECT_EQ(received.byte_len, 4u);
    EXPECT_EQ(b.Text(0, 4), "next");
    EXPECT_TRUE(b.StaysQuiet(&a, 10));
    EXPECT_EQ(b.State(), IBV_QPS_RTS);
    EXPECT_EQ(b.NextAsyncEvent(), -1);
  }

  ibv_sge entry;
  TestEnd a{Unreliable()};
  TestEnd b{Unreliable()};
};

TEST_F(UnreliableTest, ASendArrivesAndHasEndedWhenItIsSent) {
  a.Fill(0, "hello");
  ASSERT_EQ(b.Receive(7, 100, 50), 0);
  ASSERT_EQ(a.Send(8, 0, 5), 0);
  const ibv_wc sent = a.Wait();  // Before b has looked.
  EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
  EXPECT_EQ(sent.opcode, IBV_WC_SEND);
  EXPECT_EQ(sent.wr_id, 8u);
  const ibv_wc received = b.Wait(&a);
  EXPECT_EQ(received.wr_id, 7u);
  EXPECT_EQ(b.Text(100, 5), "hello");
}

TEST_F(UnreliableTest, ImmediateDataAndWritesArrive) {
  a.Fill(0, "data");
  ASSERT_EQ(b.Receive(1, 100, 50), 0);
  ASSERT_EQ(b.Receive(2, 100, 50), 0);
  ibv_send_wr request = Request(IBV_WR_SEND_WITH_IMM, 4);
  request.imm_data = 11;
  ASSERT_EQ(a.Post(request), 0);
  ASSERT_EQ(a.Write(2, 0, 4, b.Address(200), b.mr->rkey), 0);
  request = Request(IBV_WR_RDMA_WRITE_WITH_IMM, 4);
  request.imm_data = 22;
  request.wr.rdma = {b.Address(300), b.mr->rkey};
  ASSERT_EQ(a.Post(request), 0);
  const ibv_wc first = b.Wait(&a);
  EXPECT_EQ(first.imm_data, 11u);
  EXPECT_EQ(first.opcode, IBV_WC_RECV);
  const ibv_wc second = b.Wait(&a);
  EXPECT_EQ(second.imm_data, 22u);
  EXPECT_EQ(second.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(b.Text(200, 4), "data");
  EXPECT_EQ(b.Text(300, 4), "data");
  for (int i = 0; i < 3; ++i) ExpectSent();
}

TEST_F(UnreliableTest, LongMessagesArriveWhole) {
  const std::string text(1'000'000, 'x');
  a.Fill(0, text);
  ASSERT_EQ(b.Receive(1, 0, text.size()), 0);
  ASSERT_EQ(a.Send(2, 0, text.size()), 0);
  EXPECT_EQ(b.Wait(&a).byte_len, text.size());
  EXPECT_TRUE(b.Text(0, text.size()) == text);
  EXPECT_EQ(a.Wait(&b).status, IBV_WC_SUCCESS);
}

TEST_F(UnreliableTest, WhatNeedsAnAnswerIsRefusedWhenPosted) {
  EXPECT_EQ(a.Read(1, 0, 8, b.Address(0), b.mr->rkey), EINVAL);
  EXPECT_EQ(a.FetchAdd(1, 0, b.Address(0), b.mr->rkey, 1), EINVAL);
  EXPECT_EQ(a.CompareSwap(1, 0, b.Address(0), b.mr->rkey, 0, 1), EINVAL);
}

TEST_F(UnreliableTest, AMessageThatFindsNoReceiveIsLostWhole) {
  for (const size_t size : {size_t{8}, size_t{100'000}}) {
    ASSERT_EQ(a.Send(1, 0, size), 0);
    EXPECT_EQ(a.Wait(&b).status, IBV_WC_SUCCESS);
  }
  EXPECT_TRUE(b.StaysQuiet(&a, 100));
  ASSERT_EQ(b.Receive(9, 0, 64), 0);
  ExpectNextArrives(9);
}

TEST_F(UnreliableTest, AMessageThatIsTooLongIsLostAndItsReceiveIsNot) {
  for (const size_t size : {size_t{65}, size_t{100'000}}) {
    ASSERT_EQ(b.Receive(size, 0, 64), 0);
    ASSERT_EQ(a.Send(1, 2000, size), 0);
    EXPECT_EQ(a.Wait(&b).status, IBV_WC_SUCCESS);
    EXPECT_TRUE(b.StaysQuiet(&a, 100));
    ExpectNextArrives(size);
  }
}

TEST_F(UnreliableTest, AnImmediateWithoutReceiveIsLost) {
  ibv_send_wr request = Request(IBV_WR_RDMA_WRITE_WITH_IMM, 4);
  request.wr.rdma = {b.Address(300), b.mr->rkey};
  ASSERT_EQ(a.Post(request), 0);
  ExpectSent();
  EXPECT_TRUE(b.StaysQuiet(&a, 100));
  ASSERT_EQ(b.Receive(9, 0, 64), 0);
  ExpectNextArrives(9);
}

TEST_F(UnreliableTest, AWriteThatIsNotAllowedIsLost) {
  ASSERT_EQ(b.Receive(9, 0, 64), 0);
  b.Fill(64, "keep");
  ASSERT_EQ(a.Write(1, 0, 4, b.Address(64), b.mr->rkey + 1), 0);
  ASSERT_EQ(a.Write(1, 0, 100'000, b.Address(64), b.mr->rkey + 1), 0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(a.Wait(&b).status, IBV_WC_SUCCESS);
  ExpectNextArrives(9);
  EXPECT_EQ(b.Text(64, 4), "keep");
}

TEST_F(UnreliableTest, AReceiveIntoMemoryThatIsNotOursIsOurError) {
  ibv_sge wrong = {b.Address(0), 64, b.mr->lkey + 1};
  ibv_recv_wr receive = {};
  receive.sg_list = &wrong;
  receive.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(b.qp, &receive, &bad), 0);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  ExpectSent();
  EXPECT_EQ(b.Wait(&a).status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(b.State(), IBV_QPS_ERR);
  EXPECT_EQ(a.State(), IBV_QPS_RTS);
}

TEST_F(UnreliableTest, ASendFromMemoryThatIsNotOursIsOurError) {
  ibv_send_wr request = Request(IBV_WR_SEND, 8);
  entry.lkey += 1;
  ASSERT_EQ(a.Post(request), 0);
  EXPECT_EQ(a.Wait(&b).status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(a.State(), IBV_QPS_ERR);
  EXPECT_EQ(b.State(), IBV_QPS_RTS);
}

TEST_F(UnreliableTest, SendsToAPeerInErrorAreSentAndLost) {
  ASSERT_EQ(b.ToError(), 0);
  for (int i = 0; i < 100; ++i) {  // More than the ring has room for.
    ASSERT_EQ(a.Send(1, 0, 16'000), 0);
    ExpectSent();
  }
  EXPECT_EQ(a.State(), IBV_QPS_RTS);
}

TEST_F(UnreliableTest, SendsToAPeerThatIsGoneAreSentAndLost) {
  ASSERT_EQ(a.Receive(5, 0, 8), 0);
  ASSERT_EQ(b.verbs.destroy_qp(b.qp), 0);
  b.qp = nullptr;
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(a.Send(1, 0, 16'000), 0);
    EXPECT_EQ(a.Wait().wr_id, 1u);
  }
  EXPECT_EQ(a.State(), IBV_QPS_RTS);
}

TEST_F(UnreliableTest, PollingGoesOnAfterThePeerIsGone) {
  EXPECT_TRUE(a.StaysQuiet(&b, 10));  // Not enough to wake up.
  ASSERT_EQ(b.verbs.destroy_qp(b.qp), 0);
  b.qp = nullptr;
  EXPECT_TRUE(a.StaysQuiet(nullptr, 100'000));
  EXPECT_EQ(a.State(), IBV_QPS_RTS);
}

TEST_F(UnreliableTest, AMessageUnderWayToAPeerThatGoesEnds) {
  ASSERT_EQ(b.Receive(1, 0, 1'000'000), 0);
  ASSERT_EQ(a.Send(1, 0, 1'000'000), 0);
  EXPECT_TRUE(a.StaysQuiet(nullptr, 10));
  ASSERT_EQ(b.verbs.destroy_qp(b.qp), 0);
  b.qp = nullptr;
  ExpectSent();
}

TEST(UnreliableAloneTest, SendsToANumberThatNobodyHasAreSentAndLost) {
  TestEnd a(Unreliable());
  a.Connect(0xabcdef);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  EXPECT_EQ(a.Wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(a.State(), IBV_QPS_RTS);
}

TEST(UnreliableAloneTest, WhatIsSentBeforeThePeerIsReadyWaitsForIt) {
  TestEnd a(Unreliable());
  TestEnd b(Unreliable());
  a.Connect(b.qp->qp_num);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  EXPECT_EQ(a.Wait().status, IBV_WC_SUCCESS);
  ASSERT_EQ(b.ToInit(), 0);
  ASSERT_EQ(b.Receive(2, 0, 8), 0);
  ASSERT_EQ(b.ToReadyToReceive(a.qp->qp_num), 0);
  EXPECT_EQ(b.Wait(&a).wr_id, 2u);
}

TEST_F(UnreliableTest, AfterResetItConnectsAnew) {
  for (TestEnd* end : {&a, &b}) ASSERT_EQ(end->ToReset(), 0);
  ConnectByHand(a, b);
  ASSERT_EQ(b.Receive(9, 0, 64), 0);
  ExpectNextArrives(9);
}

}  // namespace
}  // namespace verbena::soft
