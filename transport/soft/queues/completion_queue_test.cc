#include "transport/soft/queues/completion_queue.h"

#include <gtest/gtest.h>

#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

// The contents of a queue and its events are tested in tests/conformance.
TEST(CompletionQueueTest, AnOverrunFailsTheQueueAndItsQueuePairs) {
  TestEndOptions tiny;
  tiny.completions = 3;  // Not rounded up.
  TestEnd a;
  TestEnd b(tiny);
  ConnectManually(a, b);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(b.Receive(i, 0, 8), 0);
    ASSERT_EQ(a.Send(i, 0, 8), 0);
  }
  while (b.State() != IBV_QPS_ERR) b.RunProtocol();
  ibv_async_event event;
  ASSERT_EQ(b.verbs.get_async_event(b.context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event.element.cq, b.cq);
  b.verbs.ack_async_event(&event);
  ibv_wc completions[5];
  EXPECT_EQ(ibv_poll_cq(b.cq, 5, completions), 3);
  EXPECT_EQ(completions[2].wr_id, 2u);
  EXPECT_LT(ibv_poll_cq(b.cq, 5, completions), 0);
}

TEST(CompletionQueueTest, AnOverrunFailsAQueuePairThatIsOnlyPolled) {
  TestEndOptions tiny;
  tiny.completions = 3;  // Not rounded up.
  TestEnd a;
  TestEnd b(tiny);
  TestEnd silent;
  ibv_qp* const busy = b.qp;
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = attributes.recv_cq = b.cq;
  attributes.qp_type = IBV_QPT_RC;
  ibv_qp* const polled = b.qp = b.verbs.create_qp(b.pd, &attributes);
  ConnectManually(silent, b);
  b.qp = busy;
  ConnectManually(a, b);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(b.Receive(i, 0, 8), 0);
    ASSERT_EQ(a.Send(i, 0, 8), 0);
  }
  while (b.State() != IBV_QPS_ERR) b.RunProtocol();
  b.qp = polled;
  while (b.State() != IBV_QPS_ERR) b.RunProtocol();
  b.verbs.destroy_qp(polled);
  b.qp = busy;
  ibv_async_event event;
  ASSERT_EQ(b.verbs.get_async_event(b.context, &event), 0);
  b.verbs.ack_async_event(&event);
}

}  // namespace
}  // namespace verbena::soft
