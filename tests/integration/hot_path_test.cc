// Tests that warm calls allocate nothing and take no lock.
//
// Both sides run in this process, and every thread that a call passes through
// is counted. The tests allow for work by the clock (a thousand ticks a
// second). Work of each call would be counted thousands of times.

#include <sys/resource.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.verbena.h"
#include "tests/testing/hot_path_counters.h"
#include "transport/base/check.h"
#include "transport/base/mutex.h"

namespace verbena::end_to_end {
namespace {

using testing_support::CountedSoFar;
using testing_support::CountThisThread;
using testing_support::HotPathCounts;

constexpr int kWarmUpCalls = 3000;
constexpr int kCalls = 50000;

absl::Status CountedEcho(ServerContext* context, const EchoRequest& request,
                         EchoReply* reply) {
  CountThisThread();
  context->set_response_attachment(context->TakeRequestAttachment());
  reply->set_payload(request.payload());
  return absl::OkStatus();
}

class CountedService final : public Inline::Service {
 public:
  CountedService() { set_handler_mode(HandlerMode::kInline); }

  absl::Status Echo(ServerContext* context, const EchoRequest* request,
                    EchoReply* reply) override {
    return CountedEcho(context, *request, reply);
  }
};

// Its handlers turn out to be short.
class CountedDefaultService final : public EndToEnd::Service {
  absl::Status Echo(ServerContext* context, const EchoRequest* request,
                    EchoReply* reply) override {
    return CountedEcho(context, *request, reply);
  }
};

// Many asynchronous calls at once, each of which starts the next.
class Chains {
 public:
  Chains(Inline::Stub* stub, int count, size_t payload_bytes) : stub_(stub) {
    for (int i = 0; i < count; ++i) {
      chains_.push_back(std::make_unique<Chain>());
      chains_.back()->request.set_payload(Pattern(payload_bytes, 1));
    }
  }

  // Makes `calls` calls in all, then returns.
  void Run(int calls) {
    left_ = calls;
    Countdown ended(static_cast<int>(chains_.size()));
    all_ended_ = &ended;
    for (const auto& chain : chains_) Next(chain.get());
    ended.Wait();
  }

  int failures() const { return failures_; }

 private:
  struct Chain {
    ClientContext context;
    EchoRequest request;
    EchoReply reply;
  };

  void Next(Chain* chain) {
    if (left_.fetch_sub(1) <= 0) {
      all_ended_->Done();
      return;
    }
    stub_->async()->Echo(&chain->context, &chain->request, &chain->reply,
                         [this, chain](const absl::Status& status) {
                           CountThisThread();
                           if (!status.ok()) ++failures_;
                           Next(chain);
                         });
  }

  Inline::Stub* const stub_;
  std::vector<std::unique_ptr<Chain>> chains_;
  std::atomic<int> left_{0};
  std::atomic<int> failures_{0};
  Countdown* all_ended_ = nullptr;
};

// How often threads of this process have given a processor up, or lost it.
int64_t Switches() {
  rusage usage = {};
  CHECK_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  return usage.ru_nvcsw + usage.ru_nivcsw;
}

class HotPathTest : public EndToEndTest {
 protected:
  void SetUp() override {
    ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(Address(0), &port)
        .RegisterService(&service_)
        .RegisterService(&default_service_);
    absl::StatusOr<std::unique_ptr<Server>> server = builder.BuildAndStart();
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = CreateChannel(Address(port), ChannelOptions());
    stub_ = Inline::NewStub(channel_);
    default_stub_ = EndToEnd::NewStub(channel_);
  }

  Inline::Stub* stub() { return stub_.get(); }
  EndToEnd::Stub* default_stub() { return default_stub_.get(); }
  Channel& channel() { return *channel_; }

  // Runs `calls(n)` to warm up, and once more; expects no lock by the call, and
  // `allocations` by the call.
  template <typename Calls>
  void ExpectNothingByTheCall(Calls calls, uint64_t allocations = 0) {
    calls(kWarmUpCalls);
    const HotPathCounts before = CountedSoFar();
    const int64_t switches_before = Switches();
    const absl::Time start = absl::Now();
    calls(kCalls);
    const int64_t elapsed_ms = absl::ToInt64Milliseconds(absl::Now() - start);
    const HotPathCounts after = CountedSoFar();
    const int64_t switches = Switches() - switches_before;
    // Storage grows with what waits at once: in one call of a hundred, at most.
    constexpr uint64_t kGrowth = kCalls / 100;
    // A handful of locks each tick; more each time that a thread sleeps, as
    // threads do on a machine that others use, and others wake it.
    const uint64_t locks_allowed =
        kGrowth + 10 * (elapsed_ms + 1) + 30 * switches;
    const uint64_t due = allocations * kCalls;
    RecordProperty("allocations", after.allocations - before.allocations);
    RecordProperty("locks", after.locks - before.locks);
    EXPECT_GE(after.allocations - before.allocations, due);
    EXPECT_LE(after.allocations - before.allocations, due + kGrowth)
        << "in " << kCalls << " calls and " << elapsed_ms << " ms";
    EXPECT_LE(after.locks - before.locks, locks_allowed)
        << "in " << kCalls << " calls and " << elapsed_ms << " ms";
  }

  template <typename Stub>
  void ExpectBlockingCallsToDoNothing(Stub* stub, size_t payload_bytes) {
    CountThisThread();
    EchoRequest request;
    EchoReply reply;
    ClientContext context;
    context.set_deadline(absl::Now() + absl::Minutes(5));
    request.set_payload(Pattern(payload_bytes, 1));
    ExpectNothingByTheCall([&](int calls) {
      for (int i = 0; i < calls; ++i) {
        ASSERT_TRUE(stub->Echo(&context, request, &reply).ok());
      }
    });
    EXPECT_EQ(reply.payload(), request.payload());
  }

 private:
  CountedService service_;
  CountedDefaultService default_service_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<Channel> channel_;
  std::unique_ptr<Inline::Stub> stub_;
  std::unique_ptr<EndToEnd::Stub> default_stub_;
};

TEST_F(HotPathTest, TheCountersCount) {
  CountThisThread();
  const HotPathCounts before = CountedSoFar();
  base::Mutex mutex;
  { const base::MutexLock lock(mutex); }
  const auto memory = std::make_unique<std::string>(1000, 'x');
  const HotPathCounts after = CountedSoFar();
  EXPECT_EQ(after.locks - before.locks, 1u);
  EXPECT_EQ(after.allocations - before.allocations, 2u);
}

TEST_F(HotPathTest, ASmallBlockingCallAllocatesNothingAndTakesNoLock) {
  ExpectBlockingCallsToDoNothing(stub(), 64);
}

TEST_F(HotPathTest, NorDoesOneOfAServiceThatMayBlock) {
  ExpectBlockingCallsToDoNothing(default_stub(), 64);
}

TEST_F(HotPathTest, APageInABlockingCallAllocatesNothingAndTakesNoLock) {
  ExpectBlockingCallsToDoNothing(stub(), 4096);
}

// A bytes field has a std::string, and that the bytes: two allocations in the
// request, by the caller, and two in the reply, as protobuf parses it. The
// server keeps its messages for the next call.
TEST_F(HotPathTest, NewMessagesAllocateOnlyTheirFields) {
  CountThisThread();
  const std::string payload = Pattern(64, 1);
  constexpr uint64_t kOfFields = 4;
  ExpectNothingByTheCall(
      [&](int calls) {
        for (int i = 0; i < calls; ++i) {
          EchoRequest request;
          EchoReply reply;
          ClientContext context;
          request.set_payload(payload);
          ASSERT_TRUE(stub()->Echo(&context, request, &reply).ok());
        }
      },
      kOfFields);
}

TEST_F(HotPathTest, AnAttachmentAllocatesNothingAndTakesNoLock) {
  CountThisThread();
  ASSERT_TRUE(channel().WaitForConnected(absl::Now() + absl::Minutes(1)));
  EchoRequest request;
  EchoReply reply;
  ClientContext context;
  context.set_deadline(absl::Now() + absl::Minutes(5));
  context.set_request_attachment(channel().AllocateBuffer(64 << 10));
  ExpectNothingByTheCall([&](int calls) {
    for (int i = 0; i < calls; ++i) {
      ASSERT_TRUE(stub()->Echo(&context, request, &reply).ok());
    }
  });
  EXPECT_EQ(context.response_attachment().size(), 64u << 10);
}

TEST_F(HotPathTest, ManyCallsAtOnceAllocateNothingAndTakeNoLock) {
  CountThisThread();
  Chains chains(stub(), 32, 64);
  ExpectNothingByTheCall([&](int calls) { chains.Run(calls); });
  EXPECT_EQ(chains.failures(), 0);
}

}  // namespace
}  // namespace verbena::end_to_end
