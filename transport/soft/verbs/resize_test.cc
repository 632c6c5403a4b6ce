// Completion queues and shared receive queues of another capacity.

#include <gtest/gtest.h>

#include <cerrno>

#include "transport/soft/base/limits.h"
#include "transport/soft/test_end.h"
#include "transport/soft/verbs/resize_cq.h"

namespace verbena::soft {
namespace {

TestEndOptions Small() {
  TestEndOptions options;
  options.completions = 4;
  options.shared_receives = 4;
  return options;
}

class ResizeTest : public testing::Test {
 protected:
  ResizeTest() { ConnectByHand(a, b); }

  // Lets `count` completions wait at a.
  void LetWrite(int count) {
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(a.Write(next_++, 0, 4, b.Address(0), b.mr->rkey), 0);
    }
    for (int i = 0; i < 100; ++i) {
      b.RunProtocol();
      a.RunProtocol();
    }
  }
  int ResizeShared(uint32_t max_wr) {
    ibv_srq_attr attributes = {};
    attributes.max_wr = max_wr;
    return b.verbs.modify_srq(b.srq, &attributes, IBV_SRQ_MAX_WR);
  }

  uint64_t next_ = 0;
  TestEnd a{Small()};
  TestEnd b{Small()};
};

TEST_F(ResizeTest, ALargerCompletionQueueKeepsWhatWaitsAndItsOrder) {
  LetWrite(3);
  EXPECT_EQ(a.Wait().wr_id, 0u);
  EXPECT_EQ(a.Wait().wr_id, 1u);
  LetWrite(3);  // Round the end of the ring.
  ASSERT_EQ(ResizeCq(a.cq, 8), 0);
  EXPECT_EQ(a.cq->cqe, 8);
  LetWrite(4);  // Eight in all: full, and no more.
  for (uint64_t i = 2; i < 10; ++i) EXPECT_EQ(a.Wait().wr_id, i);
  EXPECT_EQ(a.NextAsyncEvent(), -1);
}

TEST_F(ResizeTest, ASmallerCompletionQueueTakesNoMoreThanItSays) {
  ASSERT_EQ(ResizeCq(a.cq, 2), 0);
  LetWrite(3);
  EXPECT_EQ(a.NextAsyncEvent(), IBV_EVENT_CQ_ERR);
}

TEST_F(ResizeTest, WhatWaitsMustFit) {
  LetWrite(3);
  EXPECT_EQ(ResizeCq(a.cq, 2), EINVAL);
  EXPECT_EQ(a.cq->cqe, 4);
  EXPECT_EQ(ResizeCq(a.cq, 3), 0);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(a.Wait().wr_id, i);
}

TEST_F(ResizeTest, ACapacityBeyondTheDeviceIsRefused) {
  EXPECT_EQ(ResizeCq(a.cq, 0), EINVAL);
  EXPECT_EQ(ResizeCq(a.cq, kCompletionsMax + 1), EINVAL);
  EXPECT_EQ(ResizeCq(a.cq, kCompletionsMax), 0);
}

TEST_F(ResizeTest, ALargerSharedQueueKeepsItsReceivesAndTheirOrder) {
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(b.Receive(i, 0, 8), 0);
  EXPECT_EQ(b.Receive(4, 0, 8), ENOMEM);
  ASSERT_EQ(ResizeShared(6), 0);
  ASSERT_EQ(b.Receive(4, 0, 8), 0);
  ASSERT_EQ(b.Receive(5, 0, 8), 0);
  EXPECT_EQ(b.Receive(6, 0, 8), ENOMEM);
  for (uint64_t i = 0; i < 6; ++i) {
    ASSERT_EQ(a.Send(i, 0, 4), 0);
    EXPECT_EQ(a.Wait(&b).status, IBV_WC_SUCCESS);
    EXPECT_EQ(b.Wait(&a).wr_id, i);
  }
}

TEST_F(ResizeTest, WhatIsPostedMustFitASmallerSharedQueue) {
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(b.Receive(i, 0, 8), 0);
  EXPECT_EQ(ResizeShared(2), EINVAL);
  EXPECT_EQ(ResizeShared(3), 0);
  EXPECT_EQ(b.Receive(3, 0, 8), ENOMEM);
  ibv_srq_attr attributes;
  ASSERT_EQ(b.verbs.query_srq(b.srq, &attributes), 0);
  EXPECT_EQ(attributes.max_wr, 3u);
}

TEST_F(ResizeTest, ASharedQueueBeyondTheDeviceIsRefused) {
  EXPECT_EQ(ResizeShared(0), EINVAL);
  EXPECT_EQ(ResizeShared(kQueueDepthMax + 1), EINVAL);
}

TEST_F(ResizeTest, TheLimitIsThatOfTheNewSize) {
  ibv_srq_attr attributes = {};
  attributes.max_wr = 8;
  attributes.srq_limit = 6;
  EXPECT_EQ(b.verbs.modify_srq(b.srq, &attributes, IBV_SRQ_LIMIT), EINVAL);
  EXPECT_EQ(
      b.verbs.modify_srq(b.srq, &attributes, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT),
      0);
  attributes.max_wr = 16;
  attributes.srq_limit = 17;
  EXPECT_EQ(
      b.verbs.modify_srq(b.srq, &attributes, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT),
      EINVAL);
  ASSERT_EQ(b.verbs.query_srq(b.srq, &attributes), 0);
  EXPECT_EQ(attributes.max_wr, 8u) << "all or nothing";
}

}  // namespace
}  // namespace verbena::soft
