// Queue pairs of one process that are connected manually.

#include <gtest/gtest.h>

#include <latch>
#include <optional>
#include <thread>

#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

// The engine takes the link of a queue pair that waits for it while that queue
// pair is destroyed. A mistake here may well go without a failure; sanitizers
// see it.
TEST(ManualConnectionTest, MayBeDestroyedWhileItsPeerComes) {
  for (int round = 0; round < 200; ++round) {
    std::optional<TestEnd> waits(std::in_place);
    TestEnd comes;
    ASSERT_EQ(waits->To(IBV_QPS_INIT), 0);
    ASSERT_EQ(comes.To(IBV_QPS_INIT), 0);
    ASSERT_EQ(waits->ToReadyToReceive(comes.qp->qp_num), 0);
    std::latch together(2);
    std::thread peer([&comes, &together, number = waits->qp->qp_num] {
      together.arrive_and_wait();
      EXPECT_EQ(comes.ToReadyToReceive(number), 0);
    });
    together.arrive_and_wait();
    waits.reset();
    peer.join();
    EXPECT_EQ(comes.State(), IBV_QPS_RTR);
  }
}

// The link keeps the message, where a network would lose it.
TEST(ManualConnectionTest, WhatIsSentUnreliablyWaitsForAPeerToBeReady) {
  TestEndOptions unreliable;
  unreliable.type = IBV_QPT_UC;
  TestEnd a(unreliable);
  TestEnd b(unreliable);
  a.Connect(b.qp->qp_num);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  EXPECT_EQ(a.Wait().status, IBV_WC_SUCCESS);
  ASSERT_EQ(b.To(IBV_QPS_INIT), 0);
  ASSERT_EQ(b.Receive(2, 0, 8), 0);
  ASSERT_EQ(b.ToReadyToReceive(a.qp->qp_num), 0);
  EXPECT_EQ(b.Wait(&a).wr_id, 2u);
}

}  // namespace
}  // namespace verbena::soft
