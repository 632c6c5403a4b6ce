// What goes wrong on a connection, and how both ends are told.

#include <gtest/gtest.h>

#include <cerrno>

#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

class QueuePairErrorTest : public testing::Test {
 protected:
  QueuePairErrorTest() { ConnectByHand(a, b); }

  // A region of b with these rights, [0, 4096) of its memory.
  ibv_mr* RegionOfB(int access) {
    return b.verbs.reg_mr(b.pd, b.memory, 4096, access);
  }

  // Waits for a's one completion and for the flush that follows an error.
  ibv_wc_status Outcome(uint64_t wr_id) {
    const ibv_wc completion = a.Wait(&b);
    EXPECT_EQ(completion.wr_id, wr_id);
    return completion.status;
  }

  void ExpectBothInError() {
    EXPECT_EQ(a.State(), IBV_QPS_ERR);
    EXPECT_EQ(b.State(), IBV_QPS_ERR);
  }

  TestEnd a;
  TestEnd b;
};

TEST_F(QueuePairErrorTest, AWriteWithAWrongKeyIsARemoteAccessError) {
  ASSERT_EQ(a.Write(1, 0, 8, b.Address(0), b.mr->rkey + 1), 0);
  EXPECT_EQ(Outcome(1), IBV_WC_REM_ACCESS_ERR);
  ExpectBothInError();
}

TEST_F(QueuePairErrorTest, AWriteOutsideTheRegionChangesNothing) {
  b.Fill(b.options.memory_bytes - 4, "keep");
  a.Fill(0, "overwrite");
  ASSERT_EQ(a.Write(1, 0, 8, b.Address(b.options.memory_bytes - 4), b.mr->rkey),
            0);
  EXPECT_EQ(Outcome(1), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(b.Text(b.options.memory_bytes - 4, 4), "keep");
}

TEST_F(QueuePairErrorTest, AWriteWhoseRangeWrapsIsRefused) {
  ASSERT_EQ(a.Write(1, 0, 4096, UINT64_MAX - 100, b.mr->rkey), 0);
  EXPECT_EQ(Outcome(1), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(QueuePairErrorTest, AWriteIntoAReadOnlyRegionIsRefused) {
  ibv_mr* region = RegionOfB(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  ASSERT_EQ(a.Write(1, 0, 8, b.Address(0), region->rkey), 0);
  EXPECT_EQ(Outcome(1), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(b.verbs.dereg_mr(region), 0);
}

TEST_F(QueuePairErrorTest, AReadOfAWriteOnlyRegionIsRefused) {
  ibv_mr* region = RegionOfB(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  ASSERT_EQ(a.Read(1, 0, 8, b.Address(0), region->rkey), 0);
  EXPECT_EQ(Outcome(1), IBV_WC_REM_ACCESS_ERR);
  ExpectBothInError();
  EXPECT_EQ(b.verbs.dereg_mr(region), 0);
}

TEST_F(QueuePairErrorTest, ARegionOfAnotherProtectionDomainIsRefused) {
  ibv_pd* other = b.verbs.alloc_pd(b.context);
  ibv_mr* region = b.verbs.reg_mr(other, b.memory, 4096, b.options.access);
  ASSERT_EQ(a.Write(1, 0, 8, b.Address(0), region->rkey), 0);
  EXPECT_EQ(Outcome(1), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(b.verbs.dereg_mr(region), 0);
  EXPECT_EQ(b.verbs.dealloc_pd(other), 0);
}

TEST_F(QueuePairErrorTest, ADeregisteredRegionIsRefused) {
  ibv_mr* region = RegionOfB(b.options.access);
  const uint32_t rkey = region->rkey;
  EXPECT_EQ(b.verbs.dereg_mr(region), 0);
  ASSERT_EQ(a.Read(1, 0, 8, b.Address(0), rkey), 0);
  EXPECT_EQ(Outcome(1), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(QueuePairErrorTest, ARefusalTellsTheResponderByAnEvent) {
  ASSERT_EQ(a.Write(1, 0, 8, b.Address(0), b.mr->rkey + 1), 0);
  Outcome(1);
  EXPECT_EQ(b.NextAsyncEvent(), IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(QueuePairErrorTest,
       RequestsBeforeTheRefusedOneSucceedAndLaterOnesFlush) {
  ASSERT_EQ(a.Write(1, 0, 8, b.Address(0), b.mr->rkey), 0);
  ASSERT_EQ(a.Write(2, 0, 8, b.Address(0), b.mr->rkey + 1), 0);
  ASSERT_EQ(a.Write(3, 0, 8, b.Address(0), b.mr->rkey, 0), 0);
  EXPECT_EQ(Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(Outcome(2), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(Outcome(3), IBV_WC_WR_FLUSH_ERR);  // Though it was unsignalled.
}

TEST_F(QueuePairErrorTest, AReadBeforeTheRefusedRequestIsAnswered) {
  b.Fill(0, "good");
  ASSERT_EQ(a.Read(1, 100, 4, b.Address(0), b.mr->rkey), 0);
  ASSERT_EQ(a.Read(2, 100, 4, b.Address(0), b.mr->rkey + 1), 0);
  EXPECT_EQ(Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(Outcome(2), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(a.Text(100, 4), "good");
}

TEST_F(QueuePairErrorTest, ASendThatIsTooLongFailsAtBothEnds) {
  ASSERT_EQ(b.Receive(9, 0, 7), 0);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  EXPECT_EQ(Outcome(1), IBV_WC_REM_INV_REQ_ERR);
  const ibv_wc received = b.Wait(&a);
  EXPECT_EQ(received.wr_id, 9u);
  EXPECT_EQ(received.status, IBV_WC_LOC_LEN_ERR);
  ExpectBothInError();
}

// The first message of all goes another way than those after it.
TEST_F(QueuePairErrorTest, ALaterSendThatIsTooLongFailsAtBothEnds) {
  ASSERT_EQ(b.Receive(8, 0, 8), 0);
  ASSERT_EQ(b.Receive(9, 0, 7), 0);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  EXPECT_EQ(Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Wait(&a).wr_id, 8u);
  ASSERT_EQ(a.Send(2, 0, 8), 0);
  EXPECT_EQ(Outcome(2), IBV_WC_REM_INV_REQ_ERR);
  const ibv_wc received = b.Wait(&a);
  EXPECT_EQ(received.wr_id, 9u);
  EXPECT_EQ(received.status, IBV_WC_LOC_LEN_ERR);
}

TEST_F(QueuePairErrorTest, AReceiveIntoMemoryThatIsNotOursFailsAtBothEnds) {
  ibv_sge entry = {b.Address(0), 64, b.mr->lkey + 1};
  ibv_recv_wr receive = {};
  receive.sg_list = &entry;
  receive.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(b.qp, &receive, &bad), 0);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  EXPECT_EQ(Outcome(1), IBV_WC_REM_OP_ERR);
  EXPECT_EQ(b.Wait(&a).status, IBV_WC_LOC_PROT_ERR);
}

TEST_F(QueuePairErrorTest, AReceiveNeedsLocalWriteAccess) {
  ibv_mr* region = RegionOfB(0);
  ibv_sge entry = {b.Address(0), 64, region->lkey};
  ibv_recv_wr receive = {};
  receive.sg_list = &entry;
  receive.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(b.qp, &receive, &bad), 0);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  EXPECT_EQ(b.Wait(&a).status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(b.verbs.dereg_mr(region), 0);
}

TEST_F(QueuePairErrorTest, ASendFromMemoryThatIsNotOursIsALocalError) {
  for (size_t length : {size_t{8}, size_t{40'000}}) {
    TestEnd c;
    TestEnd d;
    ConnectByHand(c, d);
    ASSERT_EQ(d.Receive(1, 0, 60'000), 0);
    ibv_sge entry = {c.Address(0), static_cast<uint32_t>(length),
                     c.mr->lkey + 1};
    ibv_send_wr request = {};
    request.wr_id = 5;
    request.sg_list = &entry;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    ASSERT_EQ(c.Post(request), 0);
    const ibv_wc completion = c.Wait(&d);
    EXPECT_EQ(completion.wr_id, 5u);
    EXPECT_EQ(completion.status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(c.State(), IBV_QPS_ERR);
  }
}

TEST_F(QueuePairErrorTest, AReadIntoMemoryThatIsNotWritableIsALocalError) {
  ibv_mr* region = a.verbs.reg_mr(a.pd, a.memory, 4096, 0);
  ibv_sge entry = {a.Address(0), 8, region->lkey};
  ibv_send_wr request = {};
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_READ;
  request.wr.rdma = {b.Address(0), b.mr->rkey};
  ASSERT_EQ(a.Post(request), 0);
  EXPECT_EQ(Outcome(0), IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(a.verbs.dereg_mr(region), 0);
}

TEST(QueuePairAccessTest, TheQueuePairsOwnRightsCountToo) {
  TestEndOptions closed;
  closed.access = IBV_ACCESS_LOCAL_WRITE;
  TestEnd a;
  TestEnd b(closed);
  ConnectByHand(a, b);
  ibv_mr* region = b.verbs.reg_mr(
      b.pd, b.memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  ASSERT_EQ(a.Write(1, 0, 8, b.Address(0), region->rkey), 0);
  EXPECT_EQ(a.Wait(&b).status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(b.verbs.dereg_mr(region), 0);
}

TEST(QueuePairAccessTest, MoreReadsThanThePeerAcceptsAreAnInvalidRequest) {
  TestEndOptions none;
  none.reads_accepted = 0;
  TestEnd a;
  TestEnd b(none);
  ConnectByHand(a, b);
  ASSERT_EQ(a.Read(1, 0, 8, b.Address(0), b.mr->rkey), 0);
  EXPECT_EQ(a.Wait(&b).status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(b.NextAsyncEvent(), IBV_EVENT_QP_REQ_ERR);
}

TEST(QueuePairAccessTest, AReadWithoutReadResourcesIsALocalOperationError) {
  TestEndOptions none;
  none.reads_max = 0;
  TestEnd a(none);
  TestEnd b;
  ConnectByHand(a, b);
  ASSERT_EQ(a.Read(1, 0, 8, b.Address(0), b.mr->rkey), 0);
  EXPECT_EQ(a.Wait(&b).status, IBV_WC_LOC_QP_OP_ERR);
}

TEST_F(QueuePairErrorTest, EnteringErrorFlushesBothQueues) {
  ASSERT_EQ(a.Receive(1, 0, 8), 0);
  ASSERT_EQ(a.Receive(2, 0, 8), 0);
  ASSERT_EQ(a.Send(3, 0, 8), 0);  // b has no receive.
  ASSERT_EQ(a.ToError(), 0);
  bool flushed[4] = {};
  for (int i = 0; i < 3; ++i) {
    const ibv_wc completion = a.Wait();
    EXPECT_EQ(completion.status, IBV_WC_WR_FLUSH_ERR);
    flushed[completion.wr_id] = true;
  }
  EXPECT_TRUE(flushed[1] && flushed[2] && flushed[3]);
  EXPECT_TRUE(a.StaysQuiet(&b, 100));
}

TEST_F(QueuePairErrorTest, WhatIsPostedInErrorIsFlushed) {
  ASSERT_EQ(a.ToError(), 0);
  ASSERT_EQ(a.Receive(1, 0, 8), 0);
  EXPECT_EQ(a.Wait().status, IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(a.Send(2, 0, 8), 0);
  EXPECT_EQ(a.Wait().status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(QueuePairErrorTest, SendsToAPeerInErrorExceedTheirRetries) {
  ASSERT_EQ(b.ToError(), 0);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  EXPECT_EQ(Outcome(1), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(a.State(), IBV_QPS_ERR);
}

TEST_F(QueuePairErrorTest, SendsOutstandingWhenThePeerFailsExceedTheirRetries) {
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  ASSERT_EQ(b.ToError(), 0);
  EXPECT_EQ(Outcome(1), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(QueuePairErrorTest, ADestroyedPeerFailsTheQueuePair) {
  ASSERT_EQ(a.Receive(1, 0, 8), 0);
  ASSERT_EQ(a.Send(2, 0, 8), 0);
  ASSERT_EQ(b.verbs.destroy_qp(b.qp), 0);
  b.qp = nullptr;
  const ibv_wc first = a.Wait();
  EXPECT_EQ(first.wr_id, 2u);
  EXPECT_EQ(first.status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(a.Wait().status, IBV_WC_WR_FLUSH_ERR);
}

TEST(QueuePairAloneTest, SendsToANumberThatNobodyHasExceedTheirRetries) {
  TestEnd a;
  a.Connect(0xabcdef);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  EXPECT_EQ(a.Wait().status, IBV_WC_RETRY_EXC_ERR);
}

TEST(QueuePairAloneTest, SendsToAPeerThatNeverGetsReadyExceedTheirRetries) {
  TestEnd a;
  TestEnd b;
  a.Connect(b.qp->qp_num);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  EXPECT_EQ(a.Wait().status, IBV_WC_RETRY_EXC_ERR);
}

TEST(QueuePairAloneTest, SendsWaitForAPeerThatGetsReadyInTime) {
  TestEndOptions patient;
  patient.timeout = 21;  // Eight seconds.
  TestEnd a(patient);
  TestEnd b;
  a.Connect(b.qp->qp_num);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  EXPECT_TRUE(a.StaysQuiet(nullptr, 100));
  ASSERT_EQ(b.ToInit(), 0);
  ASSERT_EQ(b.Receive(1, 0, 8), 0);
  ASSERT_EQ(b.ToReadyToReceive(a.qp->qp_num), 0);
  EXPECT_EQ(b.Wait(&a).status, IBV_WC_SUCCESS);
  EXPECT_EQ(a.Wait(&b).status, IBV_WC_SUCCESS);
}

TEST(QueuePairAloneTest, AfterResetItConnectsAnew) {
  TestEnd a;
  TestEnd b;
  ConnectByHand(a, b);
  ASSERT_EQ(a.Write(1, 0, 8, b.Address(0), b.mr->rkey + 1), 0);
  EXPECT_EQ(a.Wait(&b).status, IBV_WC_REM_ACCESS_ERR);
  for (TestEnd* end : {&a, &b}) ASSERT_EQ(end->ToReset(), 0);
  ConnectByHand(a, b);
  ASSERT_EQ(b.Receive(2, 0, 8), 0);
  ASSERT_EQ(a.Send(3, 0, 8), 0);
  EXPECT_EQ(b.Wait(&a).wr_id, 2u);
  EXPECT_EQ(a.Wait(&b).wr_id, 3u);
}

TEST(QueuePairAloneTest, ResetDropsWhatWasNotPolled) {
  TestEnd a;
  TestEnd b;
  ConnectByHand(a, b);
  ASSERT_EQ(a.Receive(1, 0, 8), 0);
  ASSERT_EQ(a.ToError(), 0);
  ASSERT_EQ(a.ToReset(), 0);
  EXPECT_TRUE(a.StaysQuiet(nullptr, 10));
}

}  // namespace
}  // namespace verbena::soft
