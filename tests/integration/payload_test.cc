// Payloads of every size, alone and many at once, come back unchanged.

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"
#include "transport/base/limits.h"

namespace verbena::end_to_end {
namespace {

class PayloadTest : public EndToEndTest {
 protected:
  PayloadTest() { UseServer(); }

  // Starts an echo of each size on each stub, all at once.
  void EchoAllAtOnce(const std::vector<std::unique_ptr<EndToEnd::Stub>>& stubs,
                     const std::vector<size_t>& sizes) {
    std::deque<AsyncEcho> echoes;
    Countdown countdown(static_cast<int>(stubs.size() * sizes.size()));
    for (size_t size : sizes) {
      for (const auto& stub : stubs) {
        echoes.emplace_back(stub.get(), size, echoes.size())
            .Start([&countdown] { countdown.Done(); });
      }
    }
    countdown.Wait();
    for (const AsyncEcho& echo : echoes) EXPECT_EQ(echo.problem(), "");
  }
};

// The field around the payload makes the message a few bytes longer, so the
// sizes around a threshold go from well below to just above.
std::vector<size_t> Around(size_t threshold) {
  std::vector<size_t> sizes;
  for (size_t below = 12; below > 0; --below) {
    sizes.push_back(threshold - below);
  }
  for (size_t above = 0; above < 3; ++above) sizes.push_back(threshold + above);
  return sizes;
}

TEST_F(PayloadTest, SmallOnes) {
  const auto stub = EndToEnd::NewStub(NewChannel());
  for (size_t bytes : {0, 1, 2, 64, 127, 128, 220, 1000, 4096}) {
    EXPECT_EQ(EchoProblem(*stub, bytes, bytes), "") << bytes;
  }
}

// A request with its header, then a reply with its own, just fill a slot.
TEST_F(PayloadTest, AroundTheSlot) {
  const auto stub = EndToEnd::NewStub(NewChannel());
  for (size_t header : {64, 32, 0}) {
    for (size_t bytes : Around(transport::kBufferBytes - header)) {
      EXPECT_EQ(EchoProblem(*stub, bytes, bytes), "") << bytes;
    }
  }
}

TEST_F(PayloadTest, AroundTheInlineLimit) {
  const auto stub = EndToEnd::NewStub(NewChannel());
  for (size_t header : {64, 32, 0}) {
    for (size_t bytes : Around(transport::kInlineBytesWanted - header)) {
      EXPECT_EQ(EchoProblem(*stub, bytes, bytes), "") << bytes;
    }
  }
}

TEST_F(PayloadTest, AroundOneChunkAndTheFirstArena) {
  static_assert(transport::kBulkChunkBytes == transport::kFirstArenaBytes);
  const auto stub = EndToEnd::NewStub(NewChannel());
  for (size_t bytes : Around(transport::kBulkChunkBytes)) {
    EXPECT_EQ(EchoProblem(*stub, bytes, bytes), "") << bytes;
  }
  EXPECT_EQ(EchoProblem(*stub, size_t{3} << 20, 7), "");
}

TEST_F(PayloadTest, SixtyFourMebibytes) {
  const auto stub = EndToEnd::NewStub(NewChannel());
  EXPECT_EQ(EchoProblem(*stub, (size_t{64} << 20) - 1, 1), "");
  EXPECT_EQ(EchoProblem(*stub, size_t{64} << 20, 2), "");
}

TEST_F(PayloadTest, LimitsOfTwoGibibytes) {
  StartServer([](ServerBuilder& builder) {
    builder.SetMaxReceiveMessageSize(-1).SetMaxSendMessageSize(-1);
  });
  ChannelOptions options;
  options.max_send_message_bytes = -1;
  options.max_receive_message_bytes = -1;
  const auto stub = EndToEnd::NewStub(NewChannel(options));
  EXPECT_EQ(EchoProblem(*stub, 10, 1), "");
  EXPECT_EQ(EchoProblem(*stub, size_t{80} << 20, 2), "");
}

TEST_F(PayloadTest, TheSameForHandlersOnThePoller) {
  const auto stub = Inline::NewStub(NewChannel());
  for (size_t bytes : {0, 1, 64, 8100, 8128, 8192, 100000, 1 << 20, 3 << 20}) {
    EXPECT_EQ(EchoProblem(*stub, bytes, bytes), "") << bytes;
  }
}

// The client has no idea of the reply's size, then has learned it, or is told.
TEST_F(PayloadTest, LargeRepliesToSmallRequests) {
  const auto stub = EndToEnd::NewStub(NewChannel());
  for (size_t bytes : {8150, 8170, 100000, 100000, 2 << 20, 2 << 20, 10}) {
    for (uint64_t hint : {0, 2 << 20}) {
      ClientContext context;
      context.set_reply_size_hint(hint);
      EchoRequest request;
      EchoReply reply;
      request.set_reply_bytes(bytes);
      ASSERT_EQ(stub->Echo(&context, request, &reply), absl::OkStatus());
      EXPECT_TRUE(reply.payload() == Pattern(bytes, kReplySeed)) << bytes;
    }
  }
}

TEST_F(PayloadTest, SmallRepliesToLargeRequests) {
  const auto stub = EndToEnd::NewStub(NewChannel());
  for (size_t bytes : {8150, 8170, 100000, 2 << 20}) {
    ClientContext context;
    EchoRequest request;
    EchoReply reply;
    request.set_payload(Pattern(bytes, 1));
    request.set_reply_bytes(10);
    ASSERT_EQ(stub->Echo(&context, request, &reply), absl::OkStatus());
    EXPECT_TRUE(reply.payload() == Pattern(10, kReplySeed)) << bytes;
  }
}

TEST_F(PayloadTest, SixtyFourCallsAtOnce) {
  std::vector<std::unique_ptr<EndToEnd::Stub>> stubs;
  stubs.push_back(EndToEnd::NewStub(NewChannel()));
  EchoAllAtOnce(stubs, std::vector<size_t>(64, 100));
  EchoAllAtOnce(stubs, std::vector<size_t>(64, 8000));
  EchoAllAtOnce(stubs, std::vector<size_t>(64, 100000));
  std::vector<size_t> mixed;
  for (size_t i = 0; i < 64; ++i) mixed.push_back(i * i * 100);
  EchoAllAtOnce(stubs, mixed);
}

TEST_F(PayloadTest, MoreCallsAtOnceThanAConnectionHolds) {
  std::vector<std::unique_ptr<EndToEnd::Stub>> stubs;
  stubs.push_back(EndToEnd::NewStub(NewChannel()));
  EchoAllAtOnce(stubs, std::vector<size_t>(
                           size_t{3} * transport::kDefaultMaxOpenCalls, 50));
}

TEST_F(PayloadTest, EightConnectionsWithSixtyFourCallsEach) {
  std::vector<std::unique_ptr<EndToEnd::Stub>> stubs;
  for (int i = 0; i < 8; ++i) stubs.push_back(EndToEnd::NewStub(NewChannel()));
  EchoAllAtOnce(stubs, std::vector<size_t>(64, 200));
  EchoAllAtOnce(stubs, std::vector<size_t>(16, 50000));
}

TEST_F(PayloadTest, SeveralLargeCallsShareTheMemory) {
  std::vector<std::unique_ptr<EndToEnd::Stub>> stubs;
  for (int i = 0; i < 2; ++i) stubs.push_back(EndToEnd::NewStub(NewChannel()));
  EchoAllAtOnce(stubs, std::vector<size_t>(6, size_t{9} << 20));
}

TEST_F(PayloadTest, ManyThreadsShareAChannel) {
  const std::shared_ptr<Channel> channel = NewChannel();
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&channel, thread] {
      const auto stub = EndToEnd::NewStub(channel);
      for (size_t i = 0; i < 50; ++i) {
        const size_t bytes = (i % 10 == 9) ? 30000 * thread : 10 * i + thread;
        EXPECT_EQ(EchoProblem(*stub, bytes, thread * 100 + i), "");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(PayloadTest, ThreadsThatCallAllTheTimeStarveNoOther) {
  UseServer();
  const auto stub = Inline::NewStub(NewChannel());
  std::atomic<bool> stop = false;
  std::vector<std::thread> greedy;
  std::vector<std::string> problems(3);
  for (std::string& problem : problems) {
    greedy.emplace_back([&stub, &stop, &problem] {
      while (!stop && problem.empty()) problem = EchoProblem(*stub, 64, 1);
    });
  }
  EchoRequest request;
  EchoReply reply;
  for (int i = 0; i < 300; ++i) {
    ClientContext context;
    context.set_timeout(absl::Seconds(20));
    EXPECT_EQ(stub->Echo(&context, request, &reply), absl::OkStatus()) << i;
  }
  stop = true;
  for (std::thread& thread : greedy) thread.join();
  for (const std::string& problem : problems) EXPECT_EQ(problem, "");
}

TEST_F(PayloadTest, BlockingCallsAndCallbacksMix) {
  const auto stub = EndToEnd::NewStub(NewChannel());
  for (size_t round = 0; round < 10; ++round) {
    Countdown countdown(20);
    std::deque<AsyncEcho> echoes;
    for (size_t i = 0; i < 20; ++i) {
      echoes.emplace_back(stub.get(), 1000 * i, i).Start([&countdown] {
        countdown.Done();
      });
      if (i % 5 == 0) {
        EXPECT_EQ(EchoProblem(*stub, 500 * i, i), "");
      }
    }
    countdown.Wait();
    for (const AsyncEcho& echo : echoes) EXPECT_EQ(echo.problem(), "");
  }
}

// Starts the next call from the callback of the one before.
TEST_F(PayloadTest, CallbacksStartFurtherCalls) {
  const auto stub = EndToEnd::NewStub(NewChannel());
  constexpr int kCalls = 500;
  Countdown countdown(kCalls);
  std::deque<AsyncEcho> echoes;
  std::function<void()> next = [&] {
    if (!echoes.empty()) {
      EXPECT_EQ(echoes.back().problem(), "");
      countdown.Done();
    }
    if (echoes.size() == kCalls) return;
    echoes.emplace_back(stub.get(), echoes.size(), 1).Start(next);
  };
  next();
  countdown.Wait();
}

}  // namespace
}  // namespace verbena::end_to_end
