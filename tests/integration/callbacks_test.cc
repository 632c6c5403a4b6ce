// Tests that callbacks may do anything, for as long as they like.

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"

namespace verbena::end_to_end {
namespace {

class CallbacksTest : public EndToEndTest {
 protected:
  // A Block call of "key", which lasts until it is cancelled or released.
  struct AsyncBlock {
    ClientContext context;
    Key request;
    Nothing reply;
    absl::Status status;
  };

  // Starts it, and returns when its handler runs. `done` is called when it has
  // ended.
  std::unique_ptr<AsyncBlock> StartBlock(EndToEnd::Stub* stub,
                                         std::function<void()> done) {
    auto blocked = std::make_unique<AsyncBlock>();
    blocked->request.set_key("key");
    stub->async()->Block(
        &blocked->context, &blocked->request, &blocked->reply,
        [raw = blocked.get(), done = std::move(done)](absl::Status status) {
          raw->status = std::move(status);
          done();
        });
    service().AwaitBlocked("key");
    return blocked;
  }
};

TEST_F(CallbacksTest, OneMayMakeABlockingCall) {
  UseServer();
  const auto stub = EndToEnd::NewStub(NewChannel());
  AsyncEcho outer(stub.get(), 10, 1);
  std::string inner = "never made";
  Countdown countdown(1);
  outer.Start([&] {
    inner = EchoProblem(*stub, 100000, 2);
    countdown.Done();
  });
  countdown.Wait();
  EXPECT_EQ(outer.problem(), "");
  EXPECT_EQ(inner, "");
}

// Each waits for a call that it has started itself, so all are held up at once.
TEST_F(CallbacksTest, OnesThatBlockHoldUpNoOther) {
  UseServer();
  const auto stub = EndToEnd::NewStub(NewChannel());
  constexpr int kCalls = 8;
  Countdown all_blocked(kCalls);
  Countdown all_returned(kCalls);
  std::vector<std::unique_ptr<AsyncEcho>> outer;
  std::vector<std::unique_ptr<AsyncEcho>> inner;
  for (int i = 0; i < kCalls; ++i) {
    outer.push_back(std::make_unique<AsyncEcho>(stub.get(), 10, i));
    inner.push_back(std::make_unique<AsyncEcho>(stub.get(), 100000, i));
  }
  for (int i = 0; i < kCalls; ++i) {
    outer[i]->Start([&, echo = inner[i].get()] {
      Countdown echoed(1);
      echo->Start([&echoed] { echoed.Done(); });
      all_blocked.Done();
      all_blocked.Wait();
      echoed.Wait();
      all_returned.Done();
    });
  }
  all_blocked.Wait();
  EXPECT_EQ(EchoProblem(*stub, 10, 1), "");
  all_returned.Wait();
  for (int i = 0; i < kCalls; ++i) {
    EXPECT_EQ(outer[i]->problem(), "");
    EXPECT_EQ(inner[i]->problem(), "");
  }
}

TEST_F(CallbacksTest, DroppingTheChannelCallsThoseOfItsOpenCalls) {
  StartServer();
  auto stub = EndToEnd::NewStub(NewChannel());
  bool called = false;
  const auto blocked = StartBlock(stub.get(), [&called] { called = true; });
  stub.reset();
  EXPECT_TRUE(called);
  EXPECT_EQ(blocked->status.code(), absl::StatusCode::kCancelled)
      << blocked->status;
  EXPECT_EQ(service().AwaitOutcome("key"), "cancelled");
}

TEST_F(CallbacksTest, DroppingTheChannelWaitsForOneThatRuns) {
  UseServer();
  auto stub = EndToEnd::NewStub(NewChannel());
  AsyncEcho echo(stub.get(), 10, 1);
  Countdown running(1);
  Countdown go_on(1);
  bool returned = false;
  echo.Start([&] {
    running.Done();
    go_on.Wait();
    returned = true;
  });
  running.Wait();
  std::thread dropper([&] {
    stub.reset();
    EXPECT_TRUE(returned);
  });
  go_on.Done();
  dropper.join();
}

TEST_F(CallbacksTest, OneMayDropTheChannel) {
  StartServer();
  std::shared_ptr<EndToEnd::Stub> stub = EndToEnd::NewStub(NewChannel());
  Countdown both(2);
  const auto blocked = StartBlock(stub.get(), [&both] { both.Done(); });
  AsyncEcho echo(stub.get(), 10, 1);
  echo.Start([&both, stub = std::move(stub)]() mutable {
    stub.reset();
    both.Done();
  });
  both.Wait();
  EXPECT_EQ(blocked->status.code(), absl::StatusCode::kCancelled)
      << blocked->status;
  // Another finds everything in order.
  const auto other = EndToEnd::NewStub(NewChannel());
  EXPECT_EQ(EchoProblem(*other, 10, 1), "");
}

}  // namespace
}  // namespace verbena::end_to_end
