#include "transport/faulty/fault_plan.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "transport/base/clock.h"

namespace verbena::transport {
namespace {

TEST(FaultPlanTest, AnEmptyPlanFailsNothingAndCounts) {
  FaultPlan plan;
  EXPECT_EQ(plan.OnCall("reg_mr", true), 0);
  EXPECT_EQ(plan.OnCall("reg_mr", true), 0);
  EXPECT_FALSE(plan.OnCompletion().drop);
  EXPECT_FALSE(plan.OnEvent(RDMA_CM_EVENT_ESTABLISHED).drop);
  EXPECT_EQ(plan.calls("reg_mr"), 2u);
  EXPECT_EQ(plan.calls("create_cq"), 0u);
  EXPECT_TRUE(plan.faults().empty());
}

TEST(FaultPlanTest, TheNthCallOfOneFunctionFails) {
  FaultPlan plan;
  plan.FailCall("post_send", 2, ENOMEM, 2);
  EXPECT_EQ(plan.OnCall("post_send", true), 0);
  EXPECT_EQ(plan.OnCall("post_recv", true), 0);
  EXPECT_EQ(plan.OnCall("post_send", true), ENOMEM);
  EXPECT_EQ(plan.OnCall("post_send", true), ENOMEM);
  EXPECT_EQ(plan.OnCall("post_send", true), 0);
  ASSERT_EQ(plan.faults().size(), 2u);
  EXPECT_EQ(plan.faults()[0], "post_send call 2: errno 12");
}

TEST(FaultPlanTest, ACountWithoutEndIsOne) {
  FaultPlan plan;
  plan.FailCall("post_send", 2, ENOMEM, UINT64_MAX);
  EXPECT_EQ(plan.OnCall("post_send", true), 0);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(plan.OnCall("post_send", true), ENOMEM);
}

TEST(FaultPlanTest, ADelayedCallTakesItsTimeAndSucceeds) {
  FaultPlan plan;
  plan.DelayCall("connect", 1, absl::Milliseconds(3));
  const absl::Time start = base::Now();
  EXPECT_EQ(plan.OnCall("connect", true), 0);
  EXPECT_GE(base::Now() - start, absl::Milliseconds(3));
  EXPECT_EQ(plan.faults()[0], "connect call 1: late by 3ms");
}

TEST(FaultPlanTest, ADelayedCallMayBeReleased) {
  FaultPlan plan;
  plan.DelayCall("connect", 1, absl::Hours(1));
  std::thread caller([&] { EXPECT_EQ(plan.OnCall("connect", true), 0); });
  while (plan.faults().empty()) std::this_thread::yield();
  plan.ReleaseCalls();
  caller.join();
}

TEST(FaultPlanTest, CompletionsAndEventsAreCountedFromOne) {
  FaultPlan plan;
  plan.DropCompletion(2);
  plan.FailCompletion(3, IBV_WC_RETRY_EXC_ERR);
  EXPECT_FALSE(plan.OnCompletion().drop);
  EXPECT_TRUE(plan.OnCompletion().drop);
  EXPECT_EQ(plan.OnCompletion().status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(plan.completions(), 3u);
  plan.DropEvent(RDMA_CM_EVENT_ESTABLISHED, 2);
  EXPECT_FALSE(plan.OnEvent(RDMA_CM_EVENT_ESTABLISHED).drop);
  EXPECT_FALSE(plan.OnEvent(RDMA_CM_EVENT_DISCONNECTED).drop);
  EXPECT_TRUE(plan.OnEvent(RDMA_CM_EVENT_ESTABLISHED).drop);
}

TEST(FaultPlanTest, DamagesTheFirstWorkRequestOfEachKindThatIsMeant) {
  FaultPlan plan;
  uint8_t bytes[100] = {};
  ibv_sge entry = {reinterpret_cast<uint64_t>(bytes), sizeof(bytes), 0};
  ibv_send_wr request = {};
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  EXPECT_EQ(plan.OnWorkRequest(request), nullptr);
  plan.Damage(IBV_WR_RDMA_READ, 1, 1000, 0);
  plan.Damage(IBV_WR_SEND, 10, 99, 0);
  plan.Damage(IBV_WR_SEND, 100, 100, 30);
  plan.Damage(IBV_WR_SEND, 100, 100, 40);
  EXPECT_EQ(plan.OnWorkRequest(request), bytes + 30);
  EXPECT_EQ(plan.OnWorkRequest(request), bytes + 40);
  EXPECT_EQ(plan.OnWorkRequest(request), nullptr);
  request.opcode = IBV_WR_RDMA_READ;
  EXPECT_EQ(plan.OnWorkRequest(request), bytes);
  EXPECT_EQ(plan.faults().size(), 3u);
}

std::string FaultsOfSeed(uint64_t seed, bool may_fail) {
  FaultPlan plan(seed, 4);
  std::string failed;
  for (int i = 0; i < 100; ++i) {
    failed += plan.OnCall("reg_mr", may_fail) == 0 ? '.' : 'x';
  }
  return failed;
}

TEST(FaultPlanTest, TheSameSeedFailsTheSameCalls) {
  EXPECT_EQ(FaultsOfSeed(1, true), FaultsOfSeed(1, true));
  EXPECT_NE(FaultsOfSeed(1, true), FaultsOfSeed(2, true));
  EXPECT_NE(FaultsOfSeed(1, true).find('x'), std::string::npos);
  EXPECT_EQ(FaultsOfSeed(1, false), std::string(100, '.'));
}

}  // namespace
}  // namespace verbena::transport
