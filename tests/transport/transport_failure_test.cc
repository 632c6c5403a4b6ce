// A ServerEndpoint and ClientConnections on one device: calls that end early,
// limits that are met, servers that go.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/testing/transport_client.h"
#include "transport/base/limits.h"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;
using testing_support::kTestTimeout;
using testing_support::TestBytes;
using testing_support::TestCall;
using testing_support::TestClient;
using testing_support::TestListenAddress;
using testing_support::TestMethod;
using testing_support::TestOptions;
using testing_support::TestServer;

constexpr uint64_t kLarge = uint64_t{1} << 20;

TestCall::Options With(TestMethod method, uint64_t hint = 0) {
  TestCall::Options options;
  options.method = method;
  options.reply_hint_bytes = hint;
  return options;
}

TestCall::Options Until(TestMethod method, absl::Duration time) {
  TestCall::Options options = With(method);
  options.deadline = absl::Now() + time;
  return options;
}

// Arenas and bulk memory of so many bytes, and messages that fit.
EndpointOptions SmallMemory(uint64_t bytes) {
  EndpointOptions options = TestOptions();
  options.max_arena_bytes = bytes;
  options.max_bulk_bytes = bytes;
  options.max_send_message_bytes = bytes;
  options.max_receive_message_bytes = bytes;
  return options;
}

const absl::Status kGivenUp = absl::CancelledError("given up");

// Calls that are started together. Their clients outlive them.
class Calls {
 public:
  Calls() = default;
  Calls(Calls&&) = default;
  // Those that are open still, because the test has failed.
  ~Calls() {
    for (const auto& [client, call] : started_) {
      if (!call->done()) client->connection().Cancel(call, kGivenUp);
    }
  }

  void Start(TestClient& client, int count, uint64_t bytes,
             TestCall::Options options) {
    for (int i = 0; i < count; ++i) {
      calls_.push_back(std::make_unique<TestCall>(
          TestBytes(bytes, static_cast<uint32_t>(calls_.size())), options));
      started_.emplace_back(&client, calls_.back().get());
      client.Start(*calls_.back());
    }
  }
  bool Run(TestClient& client) {
    return client.RunUntil([this] { return AllDone(); });
  }
  bool AllDone() const {
    for (const auto& call : calls_) {
      if (!call->done()) return false;
    }
    return true;
  }
  void ExpectEchoed() const {
    for (const auto& call : calls_) {
      EXPECT_TRUE(call->status().ok()) << call->status();
      EXPECT_TRUE(call->reply() == call->sent());
      EXPECT_EQ(call->ends(), 1);
    }
  }
  void ExpectFailed(absl::StatusCode code) const {
    for (const auto& call : calls_) {
      EXPECT_EQ(call->status().code(), code) << call->status();
      EXPECT_EQ(call->ends(), 1);
    }
  }
  TestCall& operator[](size_t index) { return *calls_[index]; }
  size_t size() const { return calls_.size(); }

 private:
  std::vector<std::unique_ptr<TestCall>> calls_;
  std::vector<std::pair<TestClient*, TestCall*>> started_;
};

class TransportFailureTest : public testing::Test {
 protected:
  // Whether the connection goes on as if nothing had happened, with every slot
  // and all memory back.
  void ExpectHealthy(TestClient& client) {
    EXPECT_EQ(client.connection().open_calls(), 0u);
    Calls small;
    small.Start(client, 2 * kMaxOpenCalls, 10, With(TestMethod::kEcho));
    ASSERT_TRUE(small.Run(client));
    small.ExpectEchoed();
    EXPECT_TRUE(client.Echo(kLarge).ok());
    EXPECT_TRUE(client.Echo(kLarge, With(TestMethod::kEcho, kLarge)).ok());
  }

  // The same within a limit for messages.
  void ExpectHealthyBelow(TestClient& client, uint64_t bytes) {
    EXPECT_EQ(client.connection().open_calls(), 0u);
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(client.Echo(bytes).ok());
  }

  TestServer server_;
};

// --- Deadlines --------------------------------------------------------------

TEST_F(TransportFailureTest, EndsACallAtItsDeadline) {
  TestClient client(server_.address());
  const absl::Time start = absl::Now();
  TestCall call("", Until(TestMethod::kHold, absl::Milliseconds(50)));
  EXPECT_EQ(client.Run(call).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(50));
  EXPECT_FALSE(call.responded());
  // The server heard of it.
  EXPECT_TRUE(
      client.RunUntil([this] { return server_.handler().cancelled() == 1; }));
  ExpectHealthy(client);
}

TEST_F(TransportFailureTest, EndsACallWhoseDeadlineHasPassedAlready) {
  TestClient client(server_.address());
  TestCall call("", Until(TestMethod::kHold, absl::Seconds(-1)));
  EXPECT_EQ(client.Run(call).code(), absl::StatusCode::kDeadlineExceeded);
  ExpectHealthy(client);
}

TEST_F(TransportFailureTest, EndsCallsThatWaitAtTheirDeadline) {
  TestClient client(server_.address());
  Calls holders;
  holders.Start(client, kMaxOpenCalls, 0, With(TestMethod::kHold));
  Calls waiters;
  waiters.Start(client, 10, 0,
                Until(TestMethod::kEcho, absl::Milliseconds(20)));
  waiters.Start(client, 2, kLarge,
                Until(TestMethod::kEcho, absl::Milliseconds(30)));
  ASSERT_TRUE(waiters.Run(client));
  waiters.ExpectFailed(absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(waiters[0].written());
  EXPECT_EQ(client.connection().open_calls(), kMaxOpenCalls);
  server_.handler().Release();
  ASSERT_TRUE(holders.Run(client));
  ExpectHealthy(client);
}

// --- Cancelling -------------------------------------------------------------

TEST_F(TransportFailureTest, CancelsACallThatIsHandled) {
  TestClient client(server_.address());
  TestCall call("", With(TestMethod::kHold));
  client.Start(call);
  ASSERT_TRUE(
      client.RunUntil([this] { return server_.handler().held() == 1; }));
  client.connection().Cancel(&call, kGivenUp);
  EXPECT_EQ(call.status(), kGivenUp);
  ASSERT_TRUE(
      client.RunUntil([this] { return server_.handler().cancelled() == 1; }));
  ExpectHealthy(client);
}

TEST_F(TransportFailureTest, CancelsACallThatWaits) {
  TestClient client(server_.address());
  Calls holders;
  holders.Start(client, kMaxOpenCalls, 0, With(TestMethod::kHold));
  TestCall small("x");
  TestCall large(TestBytes(kLarge));
  client.Start(small);
  client.Start(large);
  EXPECT_EQ(client.connection().open_calls(), kMaxOpenCalls + 2);
  client.connection().Cancel(&small, kGivenUp);
  client.connection().Cancel(&large, kGivenUp);
  EXPECT_EQ(small.status(), kGivenUp);
  EXPECT_EQ(large.status(), kGivenUp);
  EXPECT_FALSE(small.written());
  EXPECT_FALSE(large.written());
  server_.handler().Release();
  ASSERT_TRUE(holders.Run(client));
  ExpectHealthy(client);
}

TEST_F(TransportFailureTest, DoesNothingToACallThatHasEnded) {
  TestClient client(server_.address());
  TestCall call("x");
  EXPECT_TRUE(client.Run(call).ok());
  client.connection().Cancel(&call, kGivenUp);
  EXPECT_TRUE(call.status().ok());
  EXPECT_EQ(call.ends(), 1);
}

// After each number of polls the call is somewhere else.
TEST_F(TransportFailureTest, CancelsAtEveryStage) {
  TestClient client(server_.address());
  for (const TestMethod method : {TestMethod::kEcho, TestMethod::kEchoWorker}) {
    for (const uint64_t hint : {uint64_t{0}, kLarge}) {
      for (int polls = 0; polls < 40; ++polls) {
        TestCall call(TestBytes(kLarge), With(method, hint));
        client.Start(call);
        for (int i = 0; i < polls && !call.done(); ++i) {
          client.connection().poller().PollOnce();
          std::this_thread::yield();
        }
        const bool was_done = call.done();
        client.connection().Cancel(&call, kGivenUp);
        EXPECT_EQ(call.status(), was_done ? absl::OkStatus() : kGivenUp);
        EXPECT_EQ(call.ends(), 1);
      }
    }
  }
  ExpectHealthy(client);
}

TEST_F(TransportFailureTest, CancelsMoreCallsThanThereAreCredits) {
  TestClient client(server_.address());
  Calls calls;
  calls.Start(client, kMaxOpenCalls, 0, With(TestMethod::kHold));
  ASSERT_TRUE(client.RunUntil([this] {
    return server_.handler().held() == static_cast<int>(kMaxOpenCalls);
  }));
  for (size_t i = 0; i < calls.size(); ++i) {
    client.connection().Cancel(&calls[i], kGivenUp);
  }
  EXPECT_TRUE(calls.AllDone());
  ASSERT_TRUE(client.RunUntil([this] {
    return server_.handler().cancelled() == static_cast<int>(kMaxOpenCalls);
  }));
  ExpectHealthy(client);
}

// The server may write to the lease of a cancelled call until its RESPONSE has
// come: nobody else gets that memory.
TEST_F(TransportFailureTest, KeepsMemoryOfACancelledCallUntilItsResponse) {
  const EndpointOptions options = SmallMemory(kFirstArenaBytes);
  TestClient client(server_.address(), options);
  // Takes the whole arena for its reply.
  TestCall stubborn("", With(TestMethod::kHoldStubborn, kFirstArenaBytes));
  client.Start(stubborn);
  ASSERT_TRUE(
      client.RunUntil([this] { return server_.handler().held() == 1; }));
  client.connection().Cancel(&stubborn, kGivenUp);
  ASSERT_TRUE(
      client.RunUntil([this] { return server_.handler().cancelled() == 1; }));
  // The caller is served, but not with that memory.
  TestCall large(TestBytes(100000), With(TestMethod::kDiscard));
  client.Start(large);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(client.Echo(100).ok());
  EXPECT_FALSE(large.written());
  EXPECT_FALSE(large.done());
  server_.handler().Release();
  ASSERT_TRUE(client.RunUntilDone(large));
  EXPECT_TRUE(large.status().ok()) << large.status();
}

// --- Limits -----------------------------------------------------------------

TEST_F(TransportFailureTest, RefusesARequestThatIsTooLargeForTheClient) {
  EndpointOptions options = TestOptions();
  options.max_send_message_bytes = 1000;
  TestClient client(server_.address(), options);
  EXPECT_TRUE(client.Echo(1000).ok());
  const absl::Status status = client.Echo(1001);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("1001"));
  EXPECT_THAT(status.message(), HasSubstr("1000"));
  ExpectHealthyBelow(client, 1000);
}

TEST_F(TransportFailureTest, RefusesARequestThatIsTooLargeForTheServer) {
  EndpointOptions options = TestOptions();
  options.max_receive_message_bytes = 100000;
  TestServer server(options);
  TestClient client(server.address());
  EXPECT_TRUE(client.Echo(100000).ok());
  const absl::Status status = client.Echo(100001);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("limit of the server"));
  EXPECT_EQ(server.handler().calls(), 1);
}

TEST_F(TransportFailureTest, RefusesAReplyThatIsTooLargeForTheClient) {
  EndpointOptions options = TestOptions();
  options.max_receive_message_bytes = 100000;
  TestClient client(server_.address(), options);
  EXPECT_TRUE(client.Echo(100000).ok());
  const absl::Status status = client.Echo(100001);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("reply of 100001 bytes"));
  ExpectHealthyBelow(client, 100000);
}

TEST_F(TransportFailureTest, RefusesAReplyThatIsTooLargeForTheServer) {
  EndpointOptions options = TestOptions();
  options.max_send_message_bytes = 5000;
  TestServer server(options);
  TestClient client(server.address());
  EXPECT_TRUE(client.Echo(5000).ok());
  const absl::Status status = client.Echo(5001);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("reply of 5001 bytes"));
  EXPECT_TRUE(client.Echo(5000).ok());
}

TEST_F(TransportFailureTest, RefusesARequestThatNoLengthCanHold) {
  TestClient client(server_.address());
  for (const uint64_t bytes : {uint64_t{1} << 32, UINT64_MAX}) {
    TestCall call("");
    call.set_message_bytes(bytes);
    EXPECT_EQ(client.Run(call).code(), absl::StatusCode::kResourceExhausted);
    EXPECT_FALSE(call.written());
  }
  ExpectHealthy(client);
}

TEST_F(TransportFailureTest, RefusesMetadataThatAreTooLong) {
  TestClient client(server_.address());
  TestCall::Options options;
  options.metadata = TestBytes(kMaxMetadataBytes + 1);
  TestCall call("x", options);
  EXPECT_EQ(client.Run(call).code(), absl::StatusCode::kResourceExhausted);
  ExpectHealthy(client);
}

TEST_F(TransportFailureTest, RefusesARequestThatNoArenaCanHold) {
  TestClient client(server_.address(), SmallMemory(1 << 20));
  TestCall::Options options;
  options.metadata = "the message alone would fill it";
  EXPECT_EQ(client.Echo(1 << 20, options).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(client.Echo(1 << 19, options).ok());
}

TEST_F(TransportFailureTest, RefusesAReplyThatTheServerCannotHold) {
  TestServer server(SmallMemory(1 << 20));
  TestClient client(server.address());
  TestCall::Options options;
  options.metadata = "the message alone would fill it";
  const absl::Status status = client.Echo(1 << 20, options);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(client.Echo(1 << 20).ok());
}

// --- Memory that runs short -------------------------------------------------

TEST_F(TransportFailureTest, LetsCallsWaitForMemoryOfTheServer) {
  const EndpointOptions options = SmallMemory(1 << 20);
  TestServer server(options);
  std::vector<std::unique_ptr<TestClient>> clients;
  std::vector<Calls> calls(3);
  for (Calls& some : calls) {
    clients.push_back(std::make_unique<TestClient>(server.address()));
    some.Start(*clients.back(), 10, 300000, With(TestMethod::kEchoWorker));
    some.Start(*clients.back(), 10, 300000, With(TestMethod::kEcho, 300000));
    some.Start(*clients.back(), 10, 300000, With(TestMethod::kEchoBuffer));
  }
  // Every client must be polled: what one has in the server, others wait for.
  ASSERT_TRUE(clients[0]->RunUntil([&] {
    clients[1]->connection().poller().PollOnce();
    clients[2]->connection().poller().PollOnce();
    return calls[0].AllDone() && calls[1].AllDone() && calls[2].AllDone();
  }));
  for (const Calls& some : calls) some.ExpectEchoed();
}

TEST_F(TransportFailureTest, LetsCallsWaitForArenas) {
  const EndpointOptions options = SmallMemory(1 << 20);
  TestClient client(server_.address(), options);
  Calls calls;
  for (const TestMethod method : {TestMethod::kEcho, TestMethod::kEchoWorker}) {
    calls.Start(client, 10, 400000, With(method));
    calls.Start(client, 10, 400000, With(method, 400000));
    calls.Start(client, 10, 100000, With(method, 20000));
  }
  ASSERT_TRUE(calls.Run(client));
  calls.ExpectEchoed();
}

TEST_F(TransportFailureTest, DoesNotHoldUpSmallCallsForLackOfMemory) {
  const EndpointOptions options = SmallMemory(1 << 20);
  TestClient client(server_.address(), options);
  TestCall holder(TestBytes(1 << 20), With(TestMethod::kHold));
  client.Start(holder);
  Calls waiters;
  waiters.Start(client, 5, 1 << 20, With(TestMethod::kDiscard));
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(client.Echo(1000).ok());
  EXPECT_FALSE(waiters[0].written());
  server_.handler().Release();
  ASSERT_TRUE(waiters.Run(client));
  ASSERT_TRUE(client.RunUntilDone(holder));
}

// Requests fill the client's arena while they wait for the server's memory, and
// that is full of replies that wait for the client's arena.
TEST_F(TransportFailureTest, DoesNotDeadlockWhenBothSidesAreFull) {
  const EndpointOptions server_options = SmallMemory(1 << 20);
  TestServer server(server_options);
  const EndpointOptions options = SmallMemory(1 << 20);
  TestClient client(server.address(), options);
  Calls calls;
  calls.Start(client, 120, 10000, With(TestMethod::kGrow));
  ASSERT_TRUE(calls.Run(client));
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_TRUE(calls[i].status().ok()) << calls[i].status();
  }
}

// The CANCELs are more than there are credits, and what they free is what the
// lease waits for.
TEST_F(TransportFailureTest, CancelsCallsAlthoughALeaseWaitsForMemory) {
  TestClient client(server_.address(), SmallMemory(4 << 20));
  Calls holders;
  holders.Start(client, kMaxOpenCalls - 1, 0, With(TestMethod::kHold, 16384));
  ASSERT_TRUE(client.RunUntil([this] {
    return server_.handler().held() == static_cast<int>(kMaxOpenCalls) - 1;
  }));
  TestCall produce("2000000", With(TestMethod::kProduce));
  client.Start(produce);
  for (size_t i = 0; i < holders.size(); ++i) {
    client.connection().Cancel(&holders[i], kGivenUp);
  }
  EXPECT_TRUE(client.RunUntilDone(produce));
  EXPECT_TRUE(produce.status().ok()) << produce.status();
  EXPECT_EQ(produce.reply().size(), 2000000u);
  client.connection().Cancel(&produce, kGivenUp);
}

// Whatever smaller calls have left of the memory, a message of the largest size
// fits again when they are done.
TEST_F(TransportFailureTest, ServesTheLargestCallAfterManySmallerOnes) {
  constexpr uint64_t kLargest = uint64_t{16} << 20;
  TestServer server(SmallMemory(kLargest));
  TestClient client(server.address(), SmallMemory(kLargest));
  Calls calls;
  calls.Start(client, 200, 100000, With(TestMethod::kEchoWorker));
  calls.Start(client, 50, 200000, With(TestMethod::kEcho, 200000));
  ASSERT_TRUE(calls.Run(client));
  calls.ExpectEchoed();
  const absl::Status status = client.Echo(kLargest);
  EXPECT_TRUE(status.ok()) << status;
}

// --- Servers that go --------------------------------------------------------

TEST_F(TransportFailureTest, RefusesToConnectWhereNobodyListens) {
  std::string address;
  {
    TestServer gone;
    address = gone.address();
  }
  const absl::Time start = absl::Now();
  const auto connection = TestClient::Connect(address, TestOptions());
  EXPECT_EQ(connection.status().code(), absl::StatusCode::kUnavailable)
      << connection.status();
  EXPECT_THAT(connection.status().message(), HasSubstr(address));
  EXPECT_LT(absl::Now() - start, kTestTimeout);
}

TEST_F(TransportFailureTest, RefusesADeviceThatIsNotThere) {
  EndpointOptions options = TestOptions();
  options.device = "mlx99";
  const auto connection = TestClient::Connect(server_.address(), options);
  EXPECT_FALSE(connection.ok());
}

TEST_F(TransportFailureTest, EndsCallsWithUnavailableWhenTheServerStops) {
  auto server = std::make_unique<TestServer>();
  TestClient client(server->address());
  Calls calls;
  calls.Start(client, 10, 0, With(TestMethod::kHold));
  ASSERT_TRUE(
      client.RunUntil([&server] { return server->handler().held() == 10; }));
  std::thread stopper(
      [&server] { server->endpoint().Shutdown(absl::InfinitePast()); });
  EXPECT_TRUE(calls.Run(client));
  stopper.join();
  calls.ExpectFailed(absl::StatusCode::kUnavailable);
  EXPECT_TRUE(client.connection().failed());
  EXPECT_EQ(client.connection().failure().code(),
            absl::StatusCode::kUnavailable);
  // Calls that come later are told the same.
  EXPECT_EQ(client.Echo(1).code(), absl::StatusCode::kUnavailable);
}

TEST_F(TransportFailureTest, LetsOpenCallsFinishWhenTheServerDrains) {
  auto server = std::make_unique<TestServer>();
  TestClient client(server->address());
  Calls calls;
  calls.Start(client, 10, 0, With(TestMethod::kHoldStubborn));
  ASSERT_TRUE(
      client.RunUntil([&server] { return server->handler().held() == 10; }));
  std::thread stopper(
      [&server] { server->endpoint().Shutdown(absl::Now() + kTestTimeout); });
  EXPECT_TRUE(
      client.RunUntil([&client] { return client.connection().draining(); }));
  TestCall late("x");
  EXPECT_EQ(client.Run(late).code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(late.status().message(), HasSubstr("shutting down"));
  EXPECT_FALSE(calls.AllDone());
  server->handler().Release();
  EXPECT_TRUE(calls.Run(client));
  stopper.join();
  calls.ExpectFailed(absl::StatusCode::kOk);
  EXPECT_TRUE(
      client.RunUntil([&client] { return client.connection().failed(); }));
}

TEST_F(TransportFailureTest, ClosesCallsThatOutlastTheDeadlineOfAShutdown) {
  auto server = std::make_unique<TestServer>();
  TestClient client(server->address());
  TestCall call("", With(TestMethod::kHold));
  client.Start(call);
  ASSERT_TRUE(
      client.RunUntil([&server] { return server->handler().held() == 1; }));
  const absl::Time start = absl::Now();
  std::thread stopper([&server, start] {
    server->endpoint().Shutdown(start + absl::Milliseconds(100));
  });
  EXPECT_TRUE(client.RunUntilDone(call));
  stopper.join();
  EXPECT_EQ(call.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(100));
}

TEST_F(TransportFailureTest, ShutsDownTwiceAndWithoutClients) {
  TestServer server;
  server.endpoint().Shutdown(absl::InfiniteFuture());
  server.endpoint().Shutdown(absl::InfinitePast());
}

TEST_F(TransportFailureTest, ShutsDownWhileLargeCallsAreUnderWay) {
  for (int polls = 0; polls < 30; polls += 3) {
    auto server = std::make_unique<TestServer>();
    TestClient client(server->address());
    Calls calls;
    calls.Start(client, 8, kLarge, With(TestMethod::kEchoWorker));
    calls.Start(client, 8, kLarge, With(TestMethod::kEcho, kLarge));
    for (int i = 0; i < polls; ++i) client.connection().poller().PollOnce();
    std::thread stopper([&server] { server.reset(); });
    EXPECT_TRUE(calls.Run(client));
    stopper.join();
  }
}

TEST_F(TransportFailureTest, EndsItsCallsWhenAConnectionIsDestroyed) {
  TestCall waits("", With(TestMethod::kHold));
  TestCall large(TestBytes(kLarge), With(TestMethod::kHold));
  {
    TestClient client(server_.address());
    client.Start(waits);
    client.Start(large);
  }
  EXPECT_EQ(waits.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(large.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(server_.AwaitConnections(0));
}

// --- Silence ----------------------------------------------------------------

TEST_F(TransportFailureTest, StaysConnectedThroughSilence) {
  EndpointOptions options = TestOptions();
  options.keepalive_time = absl::Milliseconds(20);
  options.keepalive_timeout = absl::Seconds(30);
  TestServer server(options);
  TestClient client(server.address(), options);
  TestCall call("", Until(TestMethod::kHold, absl::Milliseconds(300)));
  EXPECT_EQ(client.Run(call).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(client.Echo(1).ok());
}

TEST_F(TransportFailureTest, UsesNoProcessorWhileItIsIdle) {
  TestClient client(server_.address());
  EXPECT_TRUE(client.Echo(1).ok());
  const auto used = [] {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return absl::DurationFromTimeval(usage.ru_utime) +
           absl::DurationFromTimeval(usage.ru_stime);
  };
  const absl::Duration before = used();
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock<std::mutex> lock(mutex);
  never.wait_for(lock, std::chrono::milliseconds(1000), [] { return false; });
  EXPECT_LT(used() - before, absl::Milliseconds(200));
}

}  // namespace
}  // namespace verbena::transport
