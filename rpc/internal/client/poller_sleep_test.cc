#include "rpc/internal/client/poller_sleep.h"

#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "transport/connection/poller.h"

namespace verbena::internal {
namespace {

class PollerSleepTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<transport::Poller>> poller =
        transport::Poller::Create();
    ASSERT_TRUE(poller.ok()) << poller.status();
    poller_ = *std::move(poller);
  }

  // Sleeps until somebody wakes the poller.
  void Sleep() {
    poller_->Enter();
    const bool armed = poller_->PrepareSleep();
    poller_->Leave();
    ASSERT_TRUE(armed);
    poller_->WaitForEvent(absl::InfiniteFuture());
  }

  std::unique_ptr<transport::Poller> poller_;
  PollerSleep sleep_;
};

TEST_F(PollerSleepTest, TheHolderIsWoken) {
  sleep_.EnterAsHolder(poller_.get());
  std::thread waker([this] { sleep_.WakeHolder(); });
  Sleep();
  sleep_.LeaveAsHolder();
  waker.join();
}

TEST_F(PollerSleepTest, TheWatcherIsWoken) {
  EXPECT_FALSE(sleep_.WakeWatcher());
  sleep_.EnterAsWatcher(poller_.get());
  std::thread waker([this] { EXPECT_TRUE(sleep_.WakeWatcher()); });
  Sleep();
  waker.join();
  sleep_.LeaveAsWatcher();
  EXPECT_FALSE(sleep_.WakeWatcher());
}

TEST_F(PollerSleepTest, TheWatcherLeavesForTheHolder) {
  sleep_.EnterAsWatcher(poller_.get());
  std::thread holder([this] { sleep_.EnterAsHolder(poller_.get()); });
  Sleep();  // Until the holder comes.
  sleep_.LeaveAsWatcher();
  holder.join();
  sleep_.LeaveAsHolder();
}

}  // namespace
}  // namespace verbena::internal
