#include "transport/soft/extended/extended_completion_queue.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "transport/soft/connected/connected_queue_pair.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

// The contents of extended completion queues, and how these are read, are
// tested in tests/conformance.
TEST(ExtendedCompletionQueueTest, OverrunsCanBeIgnored) {
  TestEnd end;
  ibv_cq_init_attr_ex attributes = {};
  attributes.cqe = 15;  // Not rounded up.
  attributes.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  attributes.flags =
      IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN | IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  ibv_cq_ex* const cq = ibv_create_cq_ex(end.context, &attributes);
  ASSERT_NE(cq, nullptr);
  CompletionQueue* const queue = CompletionQueue::From(ibv_cq_ex_to_cq(cq));
  for (uint64_t i = 0; i < 20; ++i) {
    Completion completion = {};
    completion.wr_id = i;
    completion.qp = QueuePair::From(end.qp);
    completion.opcode = IBV_WC_RECV;
    queue->Push(completion);
  }
  EXPECT_FALSE(queue->failed());
  ibv_poll_cq_attr poll = {};
  ASSERT_EQ(ibv_start_poll(cq, &poll), 0);
  EXPECT_EQ(cq->wr_id, 5u) << "the newest fifteen are there";
  ibv_end_poll(cq);
  EXPECT_EQ(end.verbs.destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

}  // namespace
}  // namespace verbena::soft
