// Callbacks that promise not to block: ChannelOptions::inline_callbacks.

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"

namespace verbena::end_to_end {
namespace {

using ::testing::HasSubstr;

class InlineCallbacksTest : public EndToEndTest {
 protected:
  std::shared_ptr<Channel> NewInlineChannel() const {
    ChannelOptions options;
    options.inline_callbacks = true;
    return NewChannel(options);
  }
};

// Calls one after another, each started in the callback of the one before.
class Chain {
 public:
  Chain(EndToEnd::Stub* stub, int calls, Countdown* ended)
      : stub_(stub), ended_(ended) {
    for (int i = 0; i < calls; ++i) {
      echoes_.push_back(std::make_unique<AsyncEcho>(stub_, 10 + 700 * i, i));
    }
  }

  void StartNext() {
    if (started_ == echoes_.size()) return ended_->Done();
    echoes_[started_++]->Start([this] { StartNext(); });
  }

  void ExpectAllWell() const {
    for (const auto& echo : echoes_) EXPECT_EQ(echo->problem(), "");
  }

 private:
  EndToEnd::Stub* const stub_;
  Countdown* const ended_;
  std::vector<std::unique_ptr<AsyncEcho>> echoes_;
  size_t started_ = 0;
};

TEST_F(InlineCallbacksTest, OneMayMakeTheNextCall) {
  UseServer();
  const auto stub = EndToEnd::NewStub(NewInlineChannel());
  constexpr int kChains = 40;
  constexpr int kCalls = 30;
  Countdown ended(kChains);
  std::vector<std::unique_ptr<Chain>> chains;
  for (int i = 0; i < kChains; ++i) {
    chains.push_back(std::make_unique<Chain>(stub.get(), kCalls, &ended));
  }
  for (const auto& chain : chains) chain->StartNext();
  // Threads in blocking calls poll too, and run callbacks.
  for (int i = 0; i < 10; ++i) EXPECT_EQ(EchoProblem(*stub, 100, i), "");
  ended.Wait();
  for (const auto& chain : chains) chain->ExpectAllWell();
}

TEST_F(InlineCallbacksTest, ABlockingCallInOneEndsWithAClearError) {
  UseServer();
  const auto stub = EndToEnd::NewStub(NewInlineChannel());
  AsyncEcho outer(stub.get(), 10, 1);
  std::string inner;
  Countdown called(1);
  outer.Start([&] {
    inner = EchoProblem(*stub, 10, 2);
    called.Done();
  });
  called.Wait();
  EXPECT_EQ(outer.problem(), "");
  EXPECT_THAT(inner, HasSubstr("FAILED_PRECONDITION"));
  EXPECT_THAT(inner, HasSubstr("inline_callbacks"));
  EXPECT_EQ(EchoProblem(*stub, 10, 3), "");
}

TEST_F(InlineCallbacksTest, ABlockingStreamInOneEndsWithAClearError) {
  UseServer();
  const std::shared_ptr<Channel> channel = NewInlineChannel();
  const auto stub = EndToEnd::NewStub(channel);
  const auto streams = StreamService::NewStub(channel);
  AsyncEcho outer(stub.get(), 10, 1);
  absl::Status ended;
  Countdown called(1);
  outer.Start([&] {
    ClientContext context;
    const auto stream = streams->Chat(&context);
    EXPECT_FALSE(stream->Write(Item()));
    ended = stream->Finish();
    called.Done();
  });
  called.Wait();
  EXPECT_EQ(ended.code(), absl::StatusCode::kFailedPrecondition) << ended;
}

TEST_F(InlineCallbacksTest, OneMayDropTheChannel) {
  StartServer();
  std::shared_ptr<EndToEnd::Stub> stub = EndToEnd::NewStub(NewInlineChannel());
  AsyncEcho echo(stub.get(), 10, 1);
  Countdown called(1);
  echo.Start([&called, stub = std::move(stub)]() mutable {
    stub.reset();
    called.Done();
  });
  called.Wait();
  const auto other = EndToEnd::NewStub(NewInlineChannel());
  EXPECT_EQ(EchoProblem(*other, 10, 1), "");
}

TEST_F(InlineCallbacksTest, DroppingTheChannelWaitsForOneThatRuns) {
  UseServer();
  auto stub = EndToEnd::NewStub(NewInlineChannel());
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

// A call that fails before it was sent is reported as by default: where it is
// started nobody expects its callback.
TEST_F(InlineCallbacksTest, TheCallbackOfACallThatWasNotSentMayBlock) {
  UseServer();
  const auto stub = EndToEnd::NewStub(NewInlineChannel());
  ClientContext context;
  context.TryCancel();
  EchoRequest request;
  EchoReply reply;
  absl::Status status;
  std::string inner = "never made";
  Countdown called(1);
  stub->async()->Echo(&context, &request, &reply, [&](absl::Status ended) {
    status = std::move(ended);
    inner = EchoProblem(*stub, 10, 2);
    called.Done();
  });
  called.Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_EQ(inner, "");
}

}  // namespace
}  // namespace verbena::end_to_end
