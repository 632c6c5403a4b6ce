// Shared receive queues.

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/conformance/differences.h"
#include "tests/conformance/end.h"

namespace verbena::conformance {
namespace {

EndOptions Shared() {
  EndOptions options;
  options.shared_receives = 8;
  return options;
}

class SharedReceiveQueuesTest : public testing::Test {
 protected:
  SharedReceiveQueuesTest() : b(Shared()) { Connect(a, b); }

  int SetLimit(uint32_t limit) {
    ibv_srq_attr attributes = {};
    attributes.srq_limit = limit;
    return Verbs().modify_srq(b.srq, &attributes, IBV_SRQ_LIMIT);
  }

  uint32_t Limit() {
    ibv_srq_attr attributes = {};
    EXPECT_EQ(Verbs().query_srq(b.srq, &attributes), 0);
    return attributes.srq_limit;
  }

  End a;
  End b;
};

TEST_F(SharedReceiveQueuesTest, AQueueInUseIsBusy) {
  EXPECT_EQ(Verbs().destroy_srq(b.srq), EBUSY);
}

TEST_F(SharedReceiveQueuesTest, TheQueuePairsOwnReceivesAreRefused) {
  ibv_sge entry = b.Entry(0, 8);
  ibv_recv_wr receive = {};
  receive.sg_list = &entry;
  receive.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_recv(b.qp, &receive, &bad), EINVAL);
}

TEST_F(SharedReceiveQueuesTest, QueuePairsTakeFromItInOrder) {
  End c;
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = attributes.recv_cq = b.cq;
  attributes.srq = b.srq;
  attributes.cap = {4, 0, 1, 0, 0};
  attributes.qp_type = IBV_QPT_RC;
  ibv_qp* const second = Verbs().create_qp(b.pd, &attributes);
  ASSERT_NE(second, nullptr);
  ibv_qp* const first = b.qp;
  b.qp = second;
  Connect(c, b);
  b.peer = &a;

  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(b.Receive(i, i * 64, 64), 0);
  a.Fill(0, "from a");
  c.Fill(0, "from c");
  for (uint64_t i = 0; i < 4; ++i) {
    End& sender = i % 2 == 0 ? a : c;
    ASSERT_EQ(sender.Send(1, 0, 6), 0);
    const ibv_wc received = b.Wait();
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.wr_id, i);
    EXPECT_EQ(received.qp_num, i % 2 == 0 ? first->qp_num : second->qp_num);
    EXPECT_EQ(b.Text(i * 64, 6), i % 2 == 0 ? "from a" : "from c");
    EXPECT_EQ(sender.Outcome(1), IBV_WC_SUCCESS);
  }
  b.qp = first;
  c.peer = nullptr;  // b has one peer, and that is a.
  EXPECT_EQ(Verbs().destroy_qp(second), 0);
}

// Its receives are over memory of the queue's domain.
TEST_F(SharedReceiveQueuesTest, AQueuePairOfAnotherDomainTakesFromIt) {
  ibv_pd* const other = Verbs().alloc_pd(b.context);
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = attributes.recv_cq = b.cq;
  attributes.srq = b.srq;
  attributes.cap = {4, 0, 1, 0, 0};
  attributes.qp_type = IBV_QPT_RC;
  ibv_qp* const own = b.qp;
  b.qp = Verbs().create_qp(other, &attributes);
  ASSERT_NE(b.qp, nullptr);
  End c;
  Connect(c, b);

  ASSERT_EQ(b.Receive(7, 0, 64), 0);
  c.Fill(0, "from c");
  ASSERT_EQ(c.Send(1, 0, 6), 0);
  if (Keeps(Promise::kSharedReceivesMayBeOfAnotherDomain)) {
    EXPECT_EQ(b.Outcome(7), IBV_WC_SUCCESS);
    EXPECT_EQ(b.Text(0, 6), "from c");
    EXPECT_EQ(c.Outcome(1), IBV_WC_SUCCESS);
  } else {
    EXPECT_EQ(b.Outcome(7), IBV_WC_LOC_QP_OP_ERR);
    EXPECT_EQ(c.Outcome(1), IBV_WC_REM_OP_ERR);
  }
  EXPECT_EQ(Verbs().destroy_qp(b.qp), 0);
  EXPECT_EQ(Verbs().dealloc_pd(other), 0);
  b.qp = own;
  b.peer = &a;
  c.peer = nullptr;
}

TEST_F(SharedReceiveQueuesTest, AFullQueueIsOutOfMemory) {
  ibv_srq_attr attributes = {};
  ASSERT_EQ(Verbs().query_srq(b.srq, &attributes), 0);
  EXPECT_GE(attributes.max_wr, 8u);
  for (uint32_t i = 0; i < attributes.max_wr; ++i) {
    ASSERT_EQ(b.Receive(i, 0, 64), 0);
  }
  EXPECT_EQ(b.Receive(99, 0, 64), ENOMEM);
}

TEST_F(SharedReceiveQueuesTest, FallingBelowTheLimitIsOneEvent) {
  for (int i = 0; i < 4; ++i) ASSERT_EQ(b.Receive(7, 0, 64), 0);
  ASSERT_EQ(SetLimit(3), 0);
  EXPECT_EQ(Limit(), 3u);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(a.Send(1, 0, 8), 0);
    ASSERT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
    if (i == 0) {
      EXPECT_EQ(Limit(), 3u);  // Three are left, which is not below.
    }
  }
  EXPECT_EQ(b.NextAsyncEvent(), IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(Limit(), 0u);  // Armed once.
}

TEST_F(SharedReceiveQueuesTest, ALimitBeyondTheDepthIsRefused) {
  ibv_srq_attr attributes = {};
  ASSERT_EQ(Verbs().query_srq(b.srq, &attributes), 0);
  EXPECT_EQ(SetLimit(attributes.max_wr + 1), EINVAL);
}

TEST_F(SharedReceiveQueuesTest, NoReceiveMeansReceiverNotReady) {
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  EXPECT_TRUE(a.StaysQuiet());
  ASSERT_EQ(b.Receive(7, 0, 64), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Outcome(7), IBV_WC_SUCCESS);
}

TEST_F(SharedReceiveQueuesTest, AnErrorLeavesReceivesToOthers) {
  ASSERT_EQ(b.Receive(7, 0, 64), 0);
  ASSERT_EQ(b.To(IBV_QPS_ERR), 0);
  EXPECT_TRUE(b.StaysQuiet());  // Not flushed: they are not its own.
  if (Keeps(Promise::kLastReceiveOfASharedQueueIsAnEvent)) {
    EXPECT_EQ(b.NextAsyncEvent(), IBV_EVENT_QP_LAST_WQE_REACHED);
  } else {
    EXPECT_TRUE(b.HasNoAsyncEvent());
  }
  for (End* end : {&a, &b}) ASSERT_EQ(end->To(IBV_QPS_RESET), 0);
  Connect(a, b);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  EXPECT_EQ(b.Outcome(7), IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace verbena::conformance
