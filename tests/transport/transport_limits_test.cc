// Calls that are too large, and calls that find no memory just now.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/transport/transport_fixture.h"
#include "transport/base/limits.h"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;

using TransportLimitsTest = TransportFixture;

// --- Limits ------------------------------------------------------------------

TEST_F(TransportLimitsTest, RefusesARequestThatIsTooLargeForTheClient) {
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

TEST_F(TransportLimitsTest, RefusesARequestThatIsTooLargeForTheServer) {
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

TEST_F(TransportLimitsTest, RefusesAReplyThatIsTooLargeForTheClient) {
  EndpointOptions options = TestOptions();
  options.max_receive_message_bytes = 100000;
  TestClient client(server_.address(), options);
  EXPECT_TRUE(client.Echo(100000).ok());
  const absl::Status status = client.Echo(100001);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("reply of 100001 bytes"));
  ExpectHealthyBelow(client, 100000);
}

TEST_F(TransportLimitsTest, RefusesAReplyThatIsTooLargeForTheServer) {
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

TEST_F(TransportLimitsTest, RefusesARequestThatNoLengthCanHold) {
  TestClient client(server_.address());
  for (const uint64_t bytes : {uint64_t{1} << 32, UINT64_MAX}) {
    TestCall call("");
    call.set_message_bytes(bytes);
    EXPECT_EQ(client.Run(call).code(), absl::StatusCode::kResourceExhausted);
    EXPECT_FALSE(call.written());
  }
  ExpectHealthy(client);
}

TEST_F(TransportLimitsTest, RefusesMetadataThatAreTooLongForTheServer) {
  for (const uint32_t most : {0u, 100u, kFrameMetadataBytes, 20000u}) {
    EndpointOptions options = TestOptions();
    options.max_metadata_bytes = most;
    TestServer server(options);
    // The client has another limit, which is for metadata from the server.
    TestClient client(server.address());
    TestCall::Options with;
    with.method = TestMethod::kDiscard;
    with.metadata = TestBytes(most);
    TestCall fits("x", with);
    EXPECT_TRUE(client.Run(fits).ok()) << fits.status();
    with.metadata = TestBytes(most + 1);
    TestCall call("x", with);
    EXPECT_EQ(client.Run(call).code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(call.status().message(),
                HasSubstr(absl::StrCat("metadata of ", most + 1, " bytes")));
    EXPECT_THAT(call.status().message(),
                HasSubstr("(SetMaxMetadataSize there), "));
    EXPECT_FALSE(call.written());
    ExpectHealthy(client);
  }
}

TEST_F(TransportLimitsTest, RefusesMetadataThatAreTooLongForTheClient) {
  for (const uint32_t most : {0u, 100u, kFrameMetadataBytes, 5000u}) {
    EndpointOptions options = TestOptions();
    options.max_metadata_bytes = most;
    TestClient client(server_.address(), options);
    TestCall::Options with;
    with.metadata = TestBytes(most);
    EXPECT_TRUE(client.Echo(11, with).ok());
    with.metadata = TestBytes(most + 1);
    TestCall call("x", with);
    EXPECT_EQ(client.Run(call).code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(call.status().message(),
                HasSubstr(absl::StrCat("trailing metadata of ", most + 1,
                                       " bytes are larger than the client's "
                                       "max_metadata_bytes, ",
                                       most)));
    EXPECT_EQ(call.reply_metadata(), "");
    ExpectHealthy(client);
  }
}

TEST_F(TransportLimitsTest, CarriesTheLongestMetadataOfManyCallsAtOnce) {
  TestClient client(server_.address());
  Calls with;
  Calls without;
  for (const uint64_t bytes : {10, 9000, 300000}) {
    for (const TestMethod method :
         {TestMethod::kEcho, TestMethod::kEchoWorker}) {
      TestCall::Options options = With(method);
      without.Start(client, 60, bytes, options);
      options.metadata = TestBytes(kDefaultMaxMetadataBytes);
      with.Start(client, 60, bytes, options);
    }
  }
  ASSERT_TRUE(
      client.RunUntil([&] { return with.AllDone() && without.AllDone(); }));
  with.ExpectEchoed();
  without.ExpectEchoed();
  for (size_t i = 0; i < with.size(); ++i) {
    EXPECT_TRUE(with[i].reply_metadata() ==
                TestBytes(kDefaultMaxMetadataBytes));
    EXPECT_EQ(without[i].reply_metadata(), "");
  }
}

// Some wait in line then, some of them amid their metadata.
TEST_F(TransportLimitsTest, CallsMayBeGivenUpAmidTheirMetadata) {
  EndpointOptions options = TestOptions();
  options.max_metadata_bytes = kMaxMetadataBytes;
  TestServer server(options);
  TestClient client(server.address(), options);
  for (int round = 0; round < 50; ++round) {
    Calls calls;
    for (int i = 0; i < 5; ++i) {
      TestCall::Options with = With(TestMethod::kEcho);
      with.metadata = TestBytes(kMaxMetadataBytes, static_cast<uint32_t>(i));
      calls.Start(client, 1, i % 2 == 0 ? 10 : 20000, with);
    }
    for (int i = 0; i < round; ++i) client.connection().poller().PollOnce();
    for (size_t i = 0; i < 4; ++i) {
      client.connection().Cancel(&calls[i], GivenUp());
    }
    ASSERT_TRUE(calls.Run(client));
    EXPECT_TRUE(calls[4].status().ok()) << calls[4].status();
    EXPECT_TRUE(calls[4].reply_metadata() == TestBytes(kMaxMetadataBytes, 4));
  }
  ExpectHealthy(client);
}

TEST_F(TransportLimitsTest, LetsTenThousandCallsBeOpenIfBothSidesWantThat) {
  EndpointOptions options = TestOptions();
  options.max_open_calls = 10000;
  TestServer server(options);
  TestClient client(server.address(), options);
  Calls calls;
  calls.Start(client, 10000, 10, With(TestMethod::kHold));
  ASSERT_TRUE(
      client.RunUntil([&] { return server.handler().held() == 10000; }));
  server.handler().Release();
  ASSERT_TRUE(calls.Run(client));
  ExpectHealthy(client);
}

TEST_F(TransportLimitsTest, LetsAsManyCallsBeOpenAsTheMoreCarefulSideAllows) {
  for (const bool server_is_careful : {true, false}) {
    EndpointOptions careful = TestOptions();
    careful.max_open_calls = 3;
    TestServer server(server_is_careful ? careful : TestOptions());
    TestClient client(server.address(),
                      server_is_careful ? TestOptions() : careful);
    Calls calls;
    calls.Start(client, 4, 10, With(TestMethod::kHold));
    ASSERT_TRUE(client.RunUntil([&] { return server.handler().held() == 3; }));
    // The fourth one has not even been sent.
    EXPECT_FALSE(calls[3].written());
    server.handler().Release();
    ASSERT_TRUE(calls.Run(client));
    EXPECT_EQ(server.handler().calls(), 4);
  }
}

TEST_F(TransportLimitsTest, RefusesARequestThatNoArenaCanHold) {
  TestClient client(server_.address(), SmallMemory(1 << 20));
  TestCall::Options options;
  options.metadata = "the message alone would fill it";
  EXPECT_EQ(client.Echo(1 << 20, options).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(client.Echo(1 << 19, options).ok());
}

TEST_F(TransportLimitsTest, RefusesAReplyThatTheServerCannotHold) {
  TestServer server(SmallMemory(1 << 20));
  TestClient client(server.address());
  TestCall::Options options;
  options.metadata = "the message alone would fill it";
  const absl::Status status = client.Echo(1 << 20, options);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(client.Echo(1 << 20).ok());
}

// --- Memory that runs short --------------------------------------------------

TEST_F(TransportLimitsTest, LetsCallsWaitForMemoryOfTheServer) {
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

TEST_F(TransportLimitsTest, LetsCallsWaitForArenas) {
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

TEST_F(TransportLimitsTest, DoesNotHoldUpSmallCallsForLackOfMemory) {
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
TEST_F(TransportLimitsTest, DoesNotDeadlockWhenBothSidesAreFull) {
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
TEST_F(TransportLimitsTest, CancelsCallsAlthoughALeaseWaitsForMemory) {
  TestClient client(server_.address(), SmallMemory(4 << 20));
  Calls holders;
  holders.Start(client, kDefaultMaxOpenCalls - 1, 0,
                With(TestMethod::kHold, 16384));
  ASSERT_TRUE(client.RunUntil([this] {
    return server_.handler().held() ==
           static_cast<int>(kDefaultMaxOpenCalls) - 1;
  }));
  TestCall produce("2000000", With(TestMethod::kProduce));
  client.Start(produce);
  for (size_t i = 0; i < holders.size(); ++i) {
    client.connection().Cancel(&holders[i], GivenUp());
  }
  EXPECT_TRUE(client.RunUntilDone(produce));
  EXPECT_TRUE(produce.status().ok()) << produce.status();
  EXPECT_EQ(produce.reply().size(), 2000000u);
  client.connection().Cancel(&produce, GivenUp());
}

// Whatever smaller calls have left of the memory, a message of the largest size
// fits again when they are done.
TEST_F(TransportLimitsTest, ServesTheLargestCallAfterManySmallerOnes) {
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

}  // namespace
}  // namespace verbena::transport
