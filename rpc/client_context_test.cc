#include "rpc/client_context.h"

#include <atomic>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace verbena {
namespace {

class CountingCall final : public internal::CancellableCall {
 public:
  void Cancel() override { ++cancels; }
  std::atomic<int> cancels = 0;
};

TEST(ClientContextTest, CancellingReachesTheOpenCallOnly) {
  ClientContext context;
  CountingCall call;
  ASSERT_TRUE(context.Begin(&call));
  context.TryCancel();
  EXPECT_EQ(call.cancels, 1);
  context.End();
  context.TryCancel();
  EXPECT_EQ(call.cancels, 1);
}

TEST(ClientContextTest, CancellingBeforeTheCallIsRemembered) {
  ClientContext context;
  context.TryCancel();
  CountingCall call;
  ASSERT_TRUE(context.Begin(&call));
  EXPECT_TRUE(context.cancelled());
  EXPECT_EQ(call.cancels, 0);
  context.End();
}

TEST(ClientContextTest, ServesOneCallAtATime) {
  ClientContext context;
  CountingCall first, second;
  ASSERT_TRUE(context.Begin(&first));
  EXPECT_FALSE(context.Begin(&second));
  context.End();
  EXPECT_TRUE(context.Begin(&second));
  context.End();
}

TEST(ClientContextTest, ALaterCallForgetsWhatTheEarlierOneLearned) {
  ClientContext context;
  context.AddMetadata("key", "value");
  CountingCall call;
  ASSERT_TRUE(context.Begin(&call));
  context.mutable_trailing_metadata()->emplace("a", "b");
  *context.mutable_peer() = "10.0.0.7:1";
  context.End();
  ASSERT_TRUE(context.Begin(&call));
  EXPECT_TRUE(context.GetServerTrailingMetadata().empty());
  EXPECT_EQ(context.peer(), "");
  EXPECT_EQ(context.metadata().count("key"), 1u);
  context.End();
}

TEST(ClientContextTest, ATimeoutIsADeadlineFromNowOn) {
  ClientContext context;
  EXPECT_EQ(context.deadline(), absl::InfiniteFuture());
  const absl::Time before = absl::Now();
  context.set_timeout(absl::Seconds(5));
  EXPECT_GE(context.deadline(), before + absl::Seconds(5));
  EXPECT_LE(context.deadline(), absl::Now() + absl::Seconds(5));
}

// Nobody is in Cancel() any more when End() returns, or this crashes under a
// sanitizer.
TEST(ClientContextTest, EndWaitsForACancelThatIsUnderWay) {
  ClientContext context;
  std::atomic<bool> stop = false;
  std::thread canceller([&] {
    while (!stop) context.TryCancel();
  });
  for (int i = 0; i < 2000; ++i) {
    auto call = std::make_unique<CountingCall>();
    ASSERT_TRUE(context.Begin(call.get()));
    context.End();
    call.reset();
  }
  stop = true;
  canceller.join();
}

}  // namespace
}  // namespace verbena
