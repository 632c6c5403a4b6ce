#include "transport/device/queue_plan.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "transport/base/limits.h"
#include "transport/device/receive_buffers.h"

namespace verbena::transport {
namespace {

constexpr uint32_t kPlenty = 1 << 20;
// rdma_rxe's.
constexpr uint32_t kRxeCompletions = 32767;

TEST(QueuePlanTest, GivesOneConnectionAllThatItCanUse) {
  const QueuePlan plan = PlanQueues(1, kPlenty, kPlenty);
  EXPECT_EQ(plan.connections, 1u);
  EXPECT_EQ(plan.Receives(), kCredits + kGrantReceives);
  EXPECT_EQ(plan.shared_sends + kOwnSends + 1, kSendQueueDepth);
}

TEST(QueuePlanTest, HasRoomForEveryConnectionOnRxe) {
  const QueuePlan plan =
      PlanQueues(kMaxConnectionsPerPoller, kPlenty, kRxeCompletions);
  EXPECT_EQ(plan.connections, kMaxConnectionsPerPoller);
  EXPECT_EQ(plan.grown_receives, kMaxGrownReceives);
  EXPECT_EQ(plan.shared_sends, kMaxSharedSends);
}

TEST(QueuePlanTest, CountsEverythingThatCanCompleteAtOnce) {
  const QueuePlan plan = PlanQueues(100, kPlenty, kPlenty);
  EXPECT_EQ(plan.CompletionDepth(),
            plan.ReceiveDepth() + 100 * (kOwnSends + 1) + plan.shared_sends);
  EXPECT_GT(plan.ReceiveDepth(), plan.Receives());
}

TEST(QueuePlanTest, SharesLessOnASmallDeviceBeforeItServesFewer) {
  const QueuePlan plan = PlanQueues(100, kPlenty, 4000);
  EXPECT_EQ(plan.connections, 100u);
  EXPECT_LT(plan.grown_receives, 100 * (kCredits - kIdleCredits));
  EXPECT_LE(plan.CompletionDepth(), 4000u);
}

TEST(QueuePlanTest, ServesFewerOnAVerySmallDevice) {
  for (const uint32_t completions : {300u, 1000u, 2000u}) {
    const QueuePlan plan = PlanQueues(1000, kPlenty, completions);
    EXPECT_GT(plan.connections, 0u);
    EXPECT_LT(plan.connections, 1000u);
    EXPECT_LE(plan.CompletionDepth(), completions);
  }
  const QueuePlan plan = PlanQueues(1000, /*max_receives=*/500, kPlenty);
  EXPECT_LE(plan.ReceiveDepth(), 500u);
  EXPECT_GT(plan.connections, 100u);
}

TEST(QueuePlanTest, CountsAQueueForEachConnectionThatHasOne) {
  for (const uint32_t completions : {kPlenty, kRxeCompletions, 1000u}) {
    const QueuePlan plan =
        PlanQueues(256, kPlenty, completions, ReceiveQueues::kOneEach);
    EXPECT_EQ(plan.Receives(), kCredits + kGrantReceives);
    EXPECT_EQ(plan.CompletionDepth(),
              plan.connections * (plan.ReceiveDepth() + kOwnSends + 1) +
                  plan.shared_sends);
    EXPECT_LE(plan.CompletionDepth(), completions);
    EXPECT_GT(plan.connections,
              completions / 200 < 256 ? completions / 200 : 255);
  }
}

TEST(QueuePlanTest, BoundsWhatQueuesOfTheirOwnTakeOfSharedMemory) {
  const QueuePlan plan =
      PlanQueues(1024, kPlenty, kPlenty, ReceiveQueues::kOneEachOfSharedMemory);
  EXPECT_EQ(plan.connections, 1024u);
  EXPECT_EQ(plan.Receives(), kCredits + kGrantReceives);
  EXPECT_EQ(plan.grown_receives, kMaxGrownReceives);
  EXPECT_EQ(plan.CompletionDepth(),
            1024 * (ReceiveBuffers::QueueDepth(kIdleReceives) + kOwnSends + 1) +
                kMaxGrownReceives + plan.shared_sends);
  for (const uint32_t completions : {1000u, 4000u, kRxeCompletions}) {
    const QueuePlan small = PlanQueues(100, kPlenty, completions,
                                       ReceiveQueues::kOneEachOfSharedMemory);
    EXPECT_GT(small.connections, 0u);
    EXPECT_LE(small.CompletionDepth(), completions);
  }
}

TEST(QueuePlanTest, HasNoRoomOnATinyDevice) {
  EXPECT_EQ(PlanQueues(10, kPlenty, 50).connections, 0u);
  EXPECT_EQ(PlanQueues(10, 20, kPlenty).connections, 0u);
}

}  // namespace
}  // namespace verbena::transport
