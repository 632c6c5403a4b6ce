#include "transport/soft/queues/receive_queue.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

TestEndOptions WithSharedReceives(uint32_t depth) {
  TestEndOptions options;
  options.shared_receives = depth;
  return options;
}

TEST(ReceiveQueueTest, AFullQueueRefusesAndNamesTheRequest) {
  ReceiveQueue queue(3, 1);
  ibv_recv_wr requests[4] = {};
  for (int i = 0; i < 4; ++i) {
    requests[i].wr_id = i;
    requests[i].next = i < 3 ? &requests[i + 1] : nullptr;
  }
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(queue.Post(requests, &bad), ENOMEM);
  EXPECT_EQ(bad, &requests[3]);
  ReceiveRequest request;
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(queue.Take(request));
    EXPECT_EQ(request.wr_id, i);
  }
  EXPECT_FALSE(queue.Take(request));
}

TEST(ReceiveQueueTest, OneEntryTooManyIsRefused) {
  ReceiveQueue queue(3, 2);
  ibv_sge entries[3] = {};
  ibv_recv_wr request = {};
  request.sg_list = entries;
  ibv_recv_wr* bad = nullptr;
  request.num_sge = 2;
  EXPECT_EQ(queue.Post(&request, &bad), 0);
  request.num_sge = 3;
  EXPECT_EQ(queue.Post(&request, &bad), EINVAL);
  request.num_sge = -1;
  EXPECT_EQ(queue.Post(&request, &bad), EINVAL);
  EXPECT_EQ(queue.size(), 1u);
}

TEST(ReceiveQueueTest, ItGoesRoundWithItsEntries) {
  ReceiveQueue queue(3, 2);
  for (uint64_t i = 0; i < 20; ++i) {
    ibv_sge entries[2] = {{i, 1, 2}, {i + 1, 3, 4}};
    ibv_recv_wr posted = {};
    posted.wr_id = i;
    posted.sg_list = entries;
    posted.num_sge = 2;
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(queue.Post(&posted, &bad), 0);
    ReceiveRequest taken;
    ASSERT_TRUE(queue.Take(taken));
    EXPECT_EQ(taken.wr_id, i);
    ASSERT_EQ(taken.entry_count, 2);
    EXPECT_EQ(taken.entries[0].addr, i);
    EXPECT_EQ(taken.entries[1].lkey, 4u);
  }
}

TEST(SharedReceiveQueueTest, QueuePairsDrawFromOneQueue) {
  TestEnd b(WithSharedReceives(4));
  TestEnd a;
  ConnectByHand(a, b);
  ASSERT_EQ(b.Receive(10, 0, 8), 0);
  ASSERT_EQ(b.Receive(11, 8, 8), 0);
  a.Fill(0, "shared!!");
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  ASSERT_EQ(a.Send(2, 0, 8), 0);
  EXPECT_EQ(b.Wait(&a).wr_id, 10u);
  EXPECT_EQ(b.Wait(&a).wr_id, 11u);
  EXPECT_EQ(b.Text(8, 8), "shared!!");
}

TEST(SharedReceiveQueueTest, AQueuePairWithOneHasNoQueueOfItsOwn) {
  TestEnd b(WithSharedReceives(4));
  ASSERT_EQ(b.ToInit(), 0);
  ibv_recv_wr request = {};
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_recv(b.qp, &request, &bad), EINVAL);
  EXPECT_EQ(bad, &request);
}

TEST(SharedReceiveQueueTest, TheLimitEventComesOnceBelowTheLimit) {
  TestEnd b(WithSharedReceives(8));
  TestEnd a;
  ConnectByHand(a, b);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(b.Receive(i, 0, 8), 0);
  ibv_srq_attr attributes = {};
  attributes.srq_limit = 3;
  ASSERT_EQ(b.verbs.modify_srq(b.srq, &attributes, IBV_SRQ_LIMIT), 0);
  const auto limit = [&] {
    ibv_srq_attr now;
    EXPECT_EQ(b.verbs.query_srq(b.srq, &now), 0);
    return now.srq_limit;
  };
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  b.Wait(&a);
  EXPECT_EQ(limit(), 3u);  // Three are left: not below.
  ASSERT_EQ(a.Send(2, 0, 8), 0);
  b.Wait(&a);
  EXPECT_EQ(limit(), 0u);  // Raised, and disarmed.
  ibv_async_event event;
  ASSERT_EQ(b.verbs.get_async_event(b.context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event.element.srq, b.srq);
  b.verbs.ack_async_event(&event);
}

TEST(SharedReceiveQueueTest, ALimitBeyondTheQueueIsRefused) {
  TestEnd b(WithSharedReceives(8));
  ibv_srq_attr attributes = {};
  attributes.srq_limit = 9;
  EXPECT_EQ(b.verbs.modify_srq(b.srq, &attributes, IBV_SRQ_LIMIT), EINVAL);
  attributes.srq_limit = 8;
  EXPECT_EQ(b.verbs.modify_srq(b.srq, &attributes, IBV_SRQ_LIMIT), 0);
}

TEST(SharedReceiveQueueTest, AFailedQueuePairLeavesTheReceivesAndSaysSo) {
  TestEnd b(WithSharedReceives(8));
  TestEnd a;
  ConnectByHand(a, b);
  ASSERT_EQ(b.Receive(1, 0, 8), 0);
  ASSERT_EQ(b.ToError(), 0);
  ibv_async_event event;
  ASSERT_EQ(b.verbs.get_async_event(b.context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
  EXPECT_EQ(event.element.qp, b.qp);
  b.verbs.ack_async_event(&event);
  EXPECT_TRUE(b.StaysQuiet(&a, 10));
}

}  // namespace
}  // namespace verbena::soft
