// Calls that end before their answer has come: at their deadline, or because
// they are cancelled.

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/transport/transport_fixture.h"
#include "transport/base/clock.h"
#include "transport/base/limits.h"

namespace verbena::transport {
namespace {

using TransportCancelTest = TransportFixture;

// --- Deadlines ---------------------------------------------------------------

TEST_F(TransportCancelTest, EndsACallAtItsDeadline) {
  TestClient client(server_.address());
  const absl::Time start = base::Now();
  TestCall call("", Until(TestMethod::kHold, absl::Milliseconds(50)));
  EXPECT_EQ(client.Run(call).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_GE(base::Now() - start, absl::Milliseconds(50));
  EXPECT_FALSE(call.responded());
  // The server heard of it.
  EXPECT_TRUE(
      client.RunUntil([this] { return server_.handler().cancelled() == 1; }));
  ExpectHealthy(client);
}

TEST_F(TransportCancelTest, EndsACallWhoseDeadlineHasPassedAlready) {
  TestClient client(server_.address());
  TestCall call("", Until(TestMethod::kHold, absl::Seconds(-1)));
  EXPECT_EQ(client.Run(call).code(), absl::StatusCode::kDeadlineExceeded);
  ExpectHealthy(client);
}

TEST_F(TransportCancelTest, EndsCallsThatWaitAtTheirDeadline) {
  TestClient client(server_.address());
  Calls holders;
  holders.Start(client, kDefaultMaxOpenCalls, 0, With(TestMethod::kHold));
  Calls waiters;
  waiters.Start(client, 10, 0,
                Until(TestMethod::kEcho, absl::Milliseconds(20)));
  waiters.Start(client, 2, kLarge,
                Until(TestMethod::kEcho, absl::Milliseconds(30)));
  ASSERT_TRUE(waiters.Run(client));
  waiters.ExpectFailed(absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(waiters[0].written());
  EXPECT_EQ(client.connection().open_calls(), kDefaultMaxOpenCalls);
  server_.handler().Release();
  ASSERT_TRUE(holders.Run(client));
  ExpectHealthy(client);
}

// --- Cancelling --------------------------------------------------------------

TEST_F(TransportCancelTest, CancelsACallThatIsHandled) {
  TestClient client(server_.address());
  TestCall call("", With(TestMethod::kHold));
  client.Start(call);
  ASSERT_TRUE(
      client.RunUntil([this] { return server_.handler().held() == 1; }));
  client.connection().Cancel(&call, GivenUp());
  EXPECT_EQ(call.status(), GivenUp());
  ASSERT_TRUE(
      client.RunUntil([this] { return server_.handler().cancelled() == 1; }));
  ExpectHealthy(client);
}

TEST_F(TransportCancelTest, CancelsACallThatWaits) {
  TestClient client(server_.address());
  Calls holders;
  holders.Start(client, kDefaultMaxOpenCalls, 0, With(TestMethod::kHold));
  TestCall small("x");
  TestCall large(TestBytes(kLarge));
  client.Start(small);
  client.Start(large);
  EXPECT_EQ(client.connection().open_calls(), kDefaultMaxOpenCalls + 2);
  client.connection().Cancel(&small, GivenUp());
  client.connection().Cancel(&large, GivenUp());
  EXPECT_EQ(small.status(), GivenUp());
  EXPECT_EQ(large.status(), GivenUp());
  EXPECT_FALSE(small.written());
  EXPECT_FALSE(large.written());
  server_.handler().Release();
  ASSERT_TRUE(holders.Run(client));
  ExpectHealthy(client);
}

TEST_F(TransportCancelTest, DoesNothingToACallThatHasEnded) {
  TestClient client(server_.address());
  TestCall call("x");
  EXPECT_TRUE(client.Run(call).ok());
  client.connection().Cancel(&call, GivenUp());
  EXPECT_TRUE(call.status().ok());
  EXPECT_EQ(call.ends(), 1);
}

// After each number of polls the call is somewhere else.
TEST_F(TransportCancelTest, CancelsAtEveryStage) {
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
        client.connection().Cancel(&call, GivenUp());
        EXPECT_EQ(call.status(), was_done ? absl::OkStatus() : GivenUp());
        EXPECT_EQ(call.ends(), 1);
      }
    }
  }
  ExpectHealthy(client);
}

TEST_F(TransportCancelTest, CancelsMoreCallsThanThereAreCredits) {
  TestClient client(server_.address());
  Calls calls;
  calls.Start(client, kDefaultMaxOpenCalls, 0, With(TestMethod::kHold));
  ASSERT_TRUE(client.RunUntil([this] {
    return server_.handler().held() == static_cast<int>(kDefaultMaxOpenCalls);
  }));
  for (size_t i = 0; i < calls.size(); ++i) {
    client.connection().Cancel(&calls[i], GivenUp());
  }
  EXPECT_TRUE(calls.AllDone());
  ASSERT_TRUE(client.RunUntil([this] {
    return server_.handler().cancelled() ==
           static_cast<int>(kDefaultMaxOpenCalls);
  }));
  ExpectHealthy(client);
}

// The server may write to the lease of a cancelled call until its RESPONSE has
// come: nobody else gets that memory.
TEST_F(TransportCancelTest, KeepsMemoryOfACancelledCallUntilItsResponse) {
  const EndpointOptions options = SmallMemory(kFirstArenaBytes);
  TestClient client(server_.address(), options);
  // Takes the whole arena for its reply.
  TestCall stubborn("", With(TestMethod::kHoldStubborn, kFirstArenaBytes));
  client.Start(stubborn);
  ASSERT_TRUE(
      client.RunUntil([this] { return server_.handler().held() == 1; }));
  client.connection().Cancel(&stubborn, GivenUp());
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

}  // namespace
}  // namespace verbena::transport
