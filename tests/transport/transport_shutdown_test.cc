// Servers that are not there, go, or are silent.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/transport/raw_peer.h"
#include "tests/transport/transport_fixture.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;

using TransportShutdownTest = TransportFixture;

// --- Servers that go ---------------------------------------------------------

TEST_F(TransportShutdownTest, RefusesToConnectWhereNobodyListens) {
  std::string address;
  {
    TestServer gone;
    address = gone.address();
  }
  const absl::Time start = base::Now();
  const auto connection = TestClient::Connect(address, TestOptions());
  EXPECT_EQ(connection.status().code(), absl::StatusCode::kUnavailable)
      << connection.status();
  EXPECT_THAT(connection.status().message(), HasSubstr(address));
  EXPECT_LT(base::Now() - start, kTestTimeout);
}

TEST_F(TransportShutdownTest, RefusesADeviceThatIsNotThere) {
  EndpointOptions options = TestOptions();
  options.device = "mlx99";
  const auto connection = TestClient::Connect(server_.address(), options);
  EXPECT_FALSE(connection.ok());
}

TEST_F(TransportShutdownTest, EndsCallsWithUnavailableWhenTheServerStops) {
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

TEST_F(TransportShutdownTest, LetsOpenCallsFinishWhenTheServerDrains) {
  auto server = std::make_unique<TestServer>();
  TestClient client(server->address());
  Calls calls;
  calls.Start(client, 10, 0, With(TestMethod::kHoldStubborn));
  ASSERT_TRUE(
      client.RunUntil([&server] { return server->handler().held() == 10; }));
  std::thread stopper(
      [&server] { server->endpoint().Shutdown(base::Now() + kTestTimeout); });
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

TEST_F(TransportShutdownTest, ServesWhatComesBeforeTheClientsOwnGoAway) {
  TestServer server;
  const std::unique_ptr<RawPeer> client =
      *RawPeer::Create(server.address(), {});
  ASSERT_TRUE(client->Open().ok());
  std::thread stopper(
      [&server] { server.endpoint().Shutdown(absl::InfiniteFuture()); });
  ASSERT_TRUE(client->Receive(FrameType::kGoAway).ok());
  for (uint32_t call = 0; call < 3; ++call) {
    ASSERT_TRUE(client
                    ->Send(FrameText(client->InlineRequest(
                                         call, uint64_t(TestMethod::kEcho), 2),
                                     "hi"))
                    .ok());
    const auto frame = client->Receive(FrameType::kResponse);
    ASSERT_TRUE(frame.ok()) << frame.status();
    EXPECT_EQ(HeaderOf<ResponseHeader>(*frame).code, 0u);
    EXPECT_EQ(HeaderOf<ResponseHeader>(*frame).frame.flags & ~kFlowFlags, 0);
  }
  ASSERT_TRUE(client->Send(FrameText(client->Header(FrameType::kGoAway))).ok());
  EXPECT_TRUE(client->AwaitEnd().ok());
  stopper.join();
}

TEST_F(TransportShutdownTest, RefusesTheCallsOfAClientThatIgnoresTheGoAway) {
  EndpointOptions options = TestOptions();
  options.keepalive_timeout = absl::Milliseconds(50);
  TestServer server(options);
  const std::unique_ptr<RawPeer> client =
      *RawPeer::Create(server.address(), {});
  ASSERT_TRUE(client->Open().ok());
  const auto call = [&client](uint32_t id, TestMethod method) {
    return client->Send(
        FrameText(client->InlineRequest(id, uint64_t(method), 1), "x"));
  };
  ASSERT_TRUE(call(0, TestMethod::kHoldStubborn).ok());
  ASSERT_TRUE(server.handler().AwaitHeld(1));
  std::thread stopper(
      [&server] { server.endpoint().Shutdown(absl::InfiniteFuture()); });
  ResponseHeader response = {};
  for (uint32_t id = 1; response.frame.flags == 0; id += 1 << 16) {
    ASSERT_TRUE(call(id, TestMethod::kDiscard).ok());
    const auto frame = client->Receive(FrameType::kResponse);
    ASSERT_TRUE(frame.ok()) << frame.status();
    response = HeaderOf<ResponseHeader>(*frame);
    response.frame.flags &= static_cast<uint8_t>(~kFlowFlags);
  }
  EXPECT_EQ(response.frame.flags, kFlagUnprocessed);
  EXPECT_EQ(response.code,
            static_cast<uint32_t>(absl::StatusCode::kUnavailable));
  // The server has not handled the refused call, and still serves the call that
  // it had begun.
  const int served = server.handler().calls();
  ASSERT_TRUE(call(2, TestMethod::kDiscard).ok());
  ASSERT_TRUE(client->Receive(FrameType::kResponse).ok());
  EXPECT_EQ(server.handler().calls(), served);
  server.handler().Release();
  const auto held = client->Receive(FrameType::kResponse);
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(HeaderOf<ResponseHeader>(*held).code, 0u);
  EXPECT_TRUE(client->AwaitEnd().ok());
  stopper.join();
}

TEST_F(TransportShutdownTest, LeavesItsAddressToAnotherServerAtOnce) {
  TestServer server;
  TestClient client(server.address());
  TestCall held("", With(TestMethod::kHoldStubborn));
  client.Start(held);
  ASSERT_TRUE(
      client.RunUntil([&server] { return server.handler().held() == 1; }));
  std::thread stopper(
      [&server] { server.endpoint().Shutdown(absl::InfiniteFuture()); });
  EXPECT_TRUE(
      client.RunUntil([&client] { return client.connection().draining(); }));
  testing_support::EchoHandler handler;
  ServerEndpoint::Options options;
  options.endpoint = TestOptions();
  options.addresses = {server.address()};
  EXPECT_TRUE(ServerEndpoint::Start(options, handler).ok());
  server.handler().Release();
  EXPECT_TRUE(client.RunUntilDone(held));
  EXPECT_TRUE(held.status().ok()) << held.status();
  EXPECT_TRUE(
      client.RunUntil([&client] { return client.connection().failed(); }));
  stopper.join();
}

TEST_F(TransportShutdownTest, ClosesCallsThatOutlastTheDeadlineOfAShutdown) {
  auto server = std::make_unique<TestServer>();
  TestClient client(server->address());
  TestCall call("", With(TestMethod::kHold));
  client.Start(call);
  ASSERT_TRUE(
      client.RunUntil([&server] { return server->handler().held() == 1; }));
  const absl::Time start = base::Now();
  std::thread stopper([&server, start] {
    server->endpoint().Shutdown(start + absl::Milliseconds(100));
  });
  EXPECT_TRUE(client.RunUntilDone(call));
  stopper.join();
  EXPECT_EQ(call.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_GE(base::Now() - start, absl::Milliseconds(100));
}

TEST_F(TransportShutdownTest, ShutsDownTwiceAndWithoutClients) {
  TestServer server;
  server.endpoint().Shutdown(absl::InfiniteFuture());
  server.endpoint().Shutdown(absl::InfinitePast());
}

TEST_F(TransportShutdownTest, ShutsDownWhileLargeCallsAreUnderWay) {
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

TEST_F(TransportShutdownTest, EndsItsCallsWhenAConnectionIsDestroyed) {
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

// --- Silence -----------------------------------------------------------------

TEST_F(TransportShutdownTest, StaysConnectedThroughSilence) {
  EndpointOptions options = TestOptions();
  options.keepalive_time = absl::Milliseconds(20);
  options.keepalive_timeout = absl::Seconds(30);
  TestServer server(options);
  TestClient client(server.address(), options);
  TestCall call("", Until(TestMethod::kHold, absl::Milliseconds(300)));
  EXPECT_EQ(client.Run(call).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(client.Echo(1).ok());
}

TEST_F(TransportShutdownTest, UsesNoProcessorWhileItIsIdle) {
  TestClient client(server_.address());
  EXPECT_TRUE(client.Echo(1).ok());
  const auto used = [] {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return absl::DurationFromTimeval(usage.ru_utime) +
           absl::DurationFromTimeval(usage.ru_stime);
  };
  const absl::Duration before = used();
  const absl::Time end = base::Now() + absl::Seconds(1);
  base::Mutex mutex;
  base::CondVar never;
  const base::MutexLock lock(mutex);
  while (never.WaitUntil(mutex, end)) {
  }
  EXPECT_LT(used() - before, absl::Milliseconds(200));
}

}  // namespace
}  // namespace verbena::transport
