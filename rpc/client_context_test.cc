#include "rpc/client_context.h"

#include <atomic>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "transport/base/clock.h"

namespace verbena {
namespace {

internal::ClientCallState& StateOf(ClientContext& context) {
  return internal::ClientCallState::Of(context);
}

// Opens `call` as the library does.
bool Begin(ClientContext& context, internal::CancellableCall* call) {
  if (!StateOf(context).Reserve()) return false;
  StateOf(context).Open(call);
  return true;
}

void End(ClientContext& context) {
  StateOf(context).Close();
  StateOf(context).Release();
}

class CountingCall final : public internal::CancellableCall {
 public:
  void Cancel() override { ++cancels; }
  std::atomic<int> cancels = 0;
};

TEST(ClientContextTest, CancellingReachesTheOpenCallOnly) {
  ClientContext context;
  CountingCall call;
  ASSERT_TRUE(Begin(context, &call));
  context.TryCancel();
  EXPECT_EQ(call.cancels, 1);
  End(context);
  context.TryCancel();
  EXPECT_EQ(call.cancels, 1);
}

TEST(ClientContextTest, CancellingBeforeTheCallIsRemembered) {
  ClientContext context;
  context.TryCancel();
  CountingCall call;
  ASSERT_TRUE(Begin(context, &call));
  EXPECT_TRUE(StateOf(context).cancelled());
  EXPECT_EQ(call.cancels, 0);
  End(context);
}

TEST(ClientContextTest, ServesOneCallAtATime) {
  ClientContext context;
  CountingCall first, second;
  ASSERT_TRUE(Begin(context, &first));
  EXPECT_FALSE(Begin(context, &second));
  End(context);
  EXPECT_TRUE(Begin(context, &second));
  End(context);
}

TEST(ClientContextTest, ALaterCallForgetsWhatTheEarlierOneLearned) {
  ClientContext context;
  context.AddMetadata("key", "value");
  CountingCall call;
  ASSERT_TRUE(Begin(context, &call));
  StateOf(context).results().trailing_metadata.emplace("a", "b");
  StateOf(context).results().set_peer("10.0.0.7:1");
  End(context);
  ASSERT_TRUE(Begin(context, &call));
  EXPECT_TRUE(context.GetServerTrailingMetadata().empty());
  EXPECT_EQ(context.peer(), "");
  EXPECT_EQ(context.metadata().count("key"), 1u);
  End(context);
}

TEST(ClientContextTest, ATimeoutIsADeadlineFromNowOn) {
  ClientContext context;
  EXPECT_EQ(context.deadline(), absl::InfiniteFuture());
  const absl::Time before = absl::Now();
  context.set_timeout(absl::Seconds(5));
  EXPECT_GE(context.deadline(), before + absl::Seconds(5));
  EXPECT_LE(context.deadline(), absl::Now() + absl::Seconds(5));
}

TEST(ClientContextTest, ALaterCallHasTheWholeTimeoutAgain) {
  ClientContext context;
  // So short that it has passed when the second call begins.
  context.set_timeout(absl::Nanoseconds(1));
  CountingCall call;
  ASSERT_TRUE(Begin(context, &call));
  const absl::Time first = StateOf(context).options().deadline();
  End(context);
  while (base::Now() <= first) continue;
  ASSERT_TRUE(Begin(context, &call));
  EXPECT_GT(StateOf(context).options().deadline(), first);
  End(context);
}

TEST(ClientContextTest, ADeadlineIsTheSameForEveryCall) {
  ClientContext context;
  context.set_timeout(absl::Seconds(1));
  const absl::Time deadline = absl::Now() + absl::Seconds(5);
  context.set_deadline(deadline);
  const absl::Time due = StateOf(context).options().deadline();
  CountingCall call;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Begin(context, &call));
    EXPECT_EQ(StateOf(context).options().deadline(), due);
    End(context);
  }
}

TEST(ClientContextTest, IsInUseUntilItIsReleased) {
  ClientContext context;
  CountingCall call;
  ASSERT_TRUE(Begin(context, &call));
  StateOf(context).Close();
  context.TryCancel();
  EXPECT_EQ(call.cancels, 0);
  EXPECT_FALSE(StateOf(context).Reserve());
  StateOf(context).Release();
  EXPECT_TRUE(StateOf(context).Reserve());
  StateOf(context).CloseUnopened();
  context.TryCancel();
  EXPECT_FALSE(StateOf(context).Reserve());
  StateOf(context).Release();
}

// Nobody is in Cancel() any more when Close() returns, or this crashes under a
// sanitizer.
TEST(ClientContextTest, CloseWaitsForACancelThatIsUnderWay) {
  ClientContext context;
  std::atomic<bool> stop = false;
  std::thread canceller([&] {
    while (!stop) context.TryCancel();
  });
  for (int i = 0; i < 2000; ++i) {
    auto call = std::make_unique<CountingCall>();
    ASSERT_TRUE(Begin(context, call.get()));
    End(context);
    call.reset();
  }
  stop = true;
  canceller.join();
}

// A call that is about to open hears of a cancellation either from Cancel() or
// by its own look at cancelled().
TEST(ClientContextTest, NoCancellationIsLostWhileACallOpens) {
  for (int i = 0; i < 300; ++i) {
    ClientContext context;
    CountingCall call;
    std::thread canceller([&] { context.TryCancel(); });
    ASSERT_TRUE(StateOf(context).Reserve());
    StateOf(context).Open(&call);
    const bool seen = StateOf(context).cancelled();
    canceller.join();
    EXPECT_TRUE(seen || call.cancels == 1);
    End(context);
  }
}

}  // namespace
}  // namespace verbena
