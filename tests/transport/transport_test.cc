// A ServerEndpoint and ClientConnections on one device: everything that works.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/testing/test_device.h"
#include "tests/testing/transport_client.h"
#include "transport/base/clock.h"
#include "transport/base/limits.h"
#include "transport/base/local_addresses.h"
#include "transport/base/socket_address.h"
#include "transport/client/client_call.h"
#include "transport/client/client_connection.h"
#include "transport/client/client_poller.h"
#include "transport/device.h"
#include "transport/polling/poller.h"
#include "transport/server/server_call.h"
#include "transport/server_endpoint.h"
#include "transport/wire/frame.h"

namespace verbena::transport {
namespace {

using testing_support::kTestTimeout;
using testing_support::TestBytes;
using testing_support::TestCall;
using testing_support::TestClient;
using testing_support::TestMethod;
using testing_support::TestOptions;
using testing_support::TestServer;

constexpr uint64_t kLargestFrameRequest = kBufferBytes - sizeof(RequestHeader);
constexpr uint64_t kLargestFrameReply = kFrameReplyBytes;

// Around every length at which something else begins.
std::vector<uint64_t> InterestingSizes() {
  std::vector<uint64_t> sizes = {0, 1, 64, 65536};
  for (const uint64_t edge :
       {kLargestFrameRequest, kLargestFrameReply, uint64_t{kBufferBytes},
        kFirstArenaBytes, kFirstBulkRegionBytes, uint64_t{kBulkChunkBytes},
        2 * uint64_t{kBulkChunkBytes}}) {
    for (const uint64_t size : {edge - 1, edge, edge + 1}) {
      sizes.push_back(size);
    }
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

TestCall::Options With(TestMethod method, uint64_t hint = 0,
                       std::string metadata = "") {
  TestCall::Options options;
  options.method = method;
  options.reply_hint_bytes = hint;
  options.metadata = std::move(metadata);
  return options;
}

class TransportTest : public testing::Test {
 protected:
  // Starts `count` echoes of `bytes` at once and waits for all of them.
  void EchoMany(TestClient& client, int count, uint64_t bytes,
                TestMethod method, uint64_t hint = 0) {
    std::vector<std::unique_ptr<TestCall>> calls;
    for (int i = 0; i < count; ++i) {
      calls.push_back(std::make_unique<TestCall>(
          TestBytes(bytes, static_cast<uint32_t>(i)), With(method, hint)));
      client.Start(*calls.back());
    }
    for (const auto& call : calls) {
      ASSERT_TRUE(client.RunUntilDone(*call));
      EXPECT_TRUE(call->status().ok()) << call->status();
      EXPECT_TRUE(call->reply() == call->sent());
    }
    EXPECT_EQ(client.connection().open_calls(), 0u);
  }

  TestServer server_;
};

TEST_F(TransportTest, EchoesEverySizeThatIsOnAnEdge) {
  TestClient client(server_.address());
  for (const uint64_t size : InterestingSizes()) {
    for (const uint64_t hint : {uint64_t{0}, size, size / 2}) {
      EXPECT_TRUE(client.Echo(size, With(TestMethod::kEcho, hint)).ok())
          << size << " bytes, hint " << hint;
    }
  }
}

TEST_F(TransportTest, EchoesFromAnotherThread) {
  TestClient client(server_.address());
  for (const uint64_t size : InterestingSizes()) {
    const absl::Status status =
        client.Echo(size, With(TestMethod::kEchoWorker));
    EXPECT_TRUE(status.ok()) << size << " bytes: " << status;
  }
}

TEST_F(TransportTest, EchoesFromMemoryOfTheTransport) {
  TestClient client(server_.address());
  for (const uint64_t size : InterestingSizes()) {
    const absl::Status status =
        client.Echo(size, With(TestMethod::kEchoBuffer, size + 8, "metadata"));
    EXPECT_TRUE(status.ok()) << size << " bytes: " << status;
  }
}

TEST_F(TransportTest, CarriesMetadataBothWays) {
  TestClient client(server_.address());
  for (const uint64_t metadata : {1u, 63u, 64u, 65u, kFrameMetadataBytes}) {
    for (const uint64_t size :
         {uint64_t{0}, kLargestFrameRequest - metadata,
          kLargestFrameRequest - metadata + 1, kLargestFrameReply - metadata,
          kLargestFrameReply - metadata + 1, uint64_t{1} << 20}) {
      const absl::Status status =
          client.Echo(size, With(TestMethod::kEcho, 0, TestBytes(metadata, 3)));
      EXPECT_TRUE(status.ok())
          << size << " bytes, " << metadata << " of metadata: " << status;
    }
  }
}

// The connection begins with one credit, and each METADATA takes one.
TEST_F(TransportTest, CarriesMetadataThatNoFrameHolds) {
  EndpointOptions options = TestOptions();
  options.max_metadata_bytes = kMaxMetadataBytes;
  TestServer server(options);
  for (const uint32_t metadata :
       {kFrameMetadataBytes + 1, kDefaultMaxMetadataBytes, kMaxMetadataBytes}) {
    TestClient client(server.address(), options);
    for (const TestMethod method :
         {TestMethod::kEcho, TestMethod::kEchoWorker}) {
      for (const uint64_t size :
           {uint64_t{0}, kLargestFrameRequest, kLargestFrameReply,
            kLargestFrameReply + 1, uint64_t{12000}, uint64_t{1} << 20}) {
        const absl::Status status =
            client.Echo(size, With(method, 0, TestBytes(metadata, 3)));
        EXPECT_TRUE(status.ok())
            << size << " bytes, " << metadata << " of metadata: " << status;
      }
    }
    // Slots that had such metadata serve others.
    EXPECT_TRUE(client.Echo(100).ok());
    EXPECT_TRUE(client.Echo(100, With(TestMethod::kEcho, 0, "short")).ok());
  }
}

TEST_F(TransportTest, EchoesTheLargestMessage) {
  TestClient client(server_.address());
  const absl::Status without_lease = client.Echo(kDefaultMaxMessageBytes);
  EXPECT_TRUE(without_lease.ok()) << without_lease;
  const absl::Status with_lease =
      client.Echo(kDefaultMaxMessageBytes,
                  With(TestMethod::kEchoWorker, kDefaultMaxMessageBytes));
  EXPECT_TRUE(with_lease.ok()) << with_lease;
}

TEST_F(TransportTest, KeepsManyCallsOutstanding) {
  TestClient client(server_.address());
  for (const TestMethod method : {TestMethod::kEcho, TestMethod::kEchoWorker}) {
    EchoMany(client, 64, 0, method);
    EchoMany(client, 64, 64, method);
    EchoMany(client, 64, 9000, method);
    EchoMany(client, 64, 9000, method, /*hint=*/9000);
    EchoMany(client, 64, 100000, method);
  }
  EchoMany(client, 64, 1 << 20, TestMethod::kEchoWorker);
}

TEST_F(TransportTest, TakesMoreCallsAtOnceThanAConnectionMayHaveOpen) {
  static_assert(kDefaultMaxOpenCalls < 300);
  TestClient client(server_.address());
  EchoMany(client, 300, 100, TestMethod::kEcho);
  EchoMany(client, 300, 100, TestMethod::kEchoWorker);
  EchoMany(client, 300, 20000, TestMethod::kEcho);
  EchoMany(client, 300, 20000, TestMethod::kEchoWorker, /*hint=*/20000);
}

TEST_F(TransportTest, MixesSmallAndLargeCalls) {
  TestClient client(server_.address());
  std::vector<std::unique_ptr<TestCall>> calls;
  for (uint32_t i = 0; i < 64; ++i) {
    const uint64_t size = i % 8 == 0 ? (2u << 20) + i : i * 37;
    calls.push_back(std::make_unique<TestCall>(
        TestBytes(size, i),
        With(i % 2 == 0 ? TestMethod::kEcho : TestMethod::kEchoWorker,
             i % 3 == 0 ? size : 0)));
    client.Start(*calls.back());
  }
  for (const auto& call : calls) {
    ASSERT_TRUE(client.RunUntilDone(*call));
    EXPECT_TRUE(call->status().ok()) << call->status();
    EXPECT_TRUE(call->reply() == call->sent());
  }
}

TEST_F(TransportTest, ServesEightConnections) {
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<TestClient>(server_.address()));
  }
  EXPECT_TRUE(server_.AwaitConnections(8));
  std::vector<std::unique_ptr<TestCall>> calls;
  for (uint32_t i = 0; i < 64; ++i) {
    calls.push_back(
        std::make_unique<TestCall>(TestBytes(i % 4 == 0 ? 300000 : 50, i)));
    clients[i % 8]->Start(*calls.back());
  }
  for (uint32_t i = 0; i < 64; ++i) {
    ASSERT_TRUE(clients[i % 8]->RunUntilDone(*calls[i]));
    EXPECT_TRUE(calls[i]->status().ok()) << calls[i]->status();
    EXPECT_TRUE(calls[i]->reply() == calls[i]->sent());
  }
  clients.clear();
  EXPECT_TRUE(server_.AwaitConnections(0));
}

TEST_F(TransportTest, ConnectsAgainAndAgain) {
  for (int i = 0; i < 10; ++i) {
    TestClient client(server_.address());
    EXPECT_TRUE(client.Echo(100).ok());
  }
  EXPECT_TRUE(server_.AwaitConnections(0));
}

TEST_F(TransportTest, SpreadsConnectionsOverPollers) {
  TestServer server(TestOptions(), /*pollers=*/3);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(std::make_unique<TestClient>(server.address()));
  }
  for (const auto& client : clients) {
    EXPECT_TRUE(client->Echo(50000, With(TestMethod::kEchoWorker)).ok());
  }
}

// Starts another call on another connection when it ends.
class ChainedCall final : public ClientCall {
 public:
  ChainedCall(ClientConnection& connection, TestCall& next)
      : connection_(connection), next_(next) {
    request_.method_id = static_cast<uint64_t>(TestMethod::kEcho);
  }
  void WriteRequest(uint8_t* /*out*/) override {}
  void OnResponse(const CallResponse& /*response*/) override {
    connection_.Start(&next_);
  }
  void OnFailed(const absl::Status& status) override {
    ADD_FAILURE() << status.ToString();
  }

 private:
  ClientConnection& connection_;
  TestCall& next_;
};

TEST_F(TransportTest, DrivesSeveralConnectionsWithOnePoller) {
  const std::unique_ptr<ClientPoller> clients = *ClientPoller::Create();
  Poller& poller = clients->poller();
  poller.Enter();
  const auto connect = [&] {
    return clients->Connect(
        testing_support::TestProvider(),
        *base::SocketAddress::ParseNumeric(server_.address()), TestOptions(),
        /*observer=*/nullptr);
  };
  std::unique_ptr<ClientConnection> first = connect();
  std::unique_ptr<ClientConnection> second = connect();
  poller.PollUntil([&] { return first->usable() && second->usable(); },
                   base::Now() + kTestTimeout);
  // Whichever is polled first, the other gets something to send after it.
  TestCall last("last");
  ChainedCall middle(*first, last);
  TestCall there("there");
  ChainedCall back(*second, there);
  first->Start(&back);
  second->Start(&middle);
  poller.PollUntil([&] { return last.done() && there.done(); },
                   base::Now() + kTestTimeout);
  EXPECT_EQ(last.reply(), "last");
  EXPECT_EQ(there.reply(), "there");
  clients->Close(std::move(first));
  TestCall after("after");
  second->Start(&after);
  poller.PollUntil([&] { return after.done(); }, base::Now() + kTestTimeout);
  EXPECT_EQ(after.reply(), "after");
  clients->Close(std::move(second));
  poller.Leave();
}

TEST_F(TransportTest, PassesOnTheStatusOfAHandler) {
  TestClient client(server_.address());
  TestCall call("too bad", With(TestMethod::kFail));
  EXPECT_EQ(client.Run(call), absl::AbortedError("too bad"));
  EXPECT_TRUE(call.responded());
  TestCall unknown("", With(static_cast<TestMethod>(99)));
  EXPECT_EQ(client.Run(unknown).code(), absl::StatusCode::kUnimplemented);
  // The longest text that is sent whole, and one that is cut.
  TestCall longest(TestBytes(kMaxStatusMessageBytes),
                   With(TestMethod::kFail, 0));
  EXPECT_EQ(client.Run(longest).message(), longest.sent());
  TestCall longer(TestBytes(kMaxStatusMessageBytes + 1),
                  With(TestMethod::kFail, 0));
  EXPECT_EQ(client.Run(longer).message(),
            longer.sent().substr(0, kMaxStatusMessageBytes));
}

// Writes down on which poller the last call came.
class PollerNote final : public ServerHandler {
 public:
  void OnCall(ServerCall* call) override {
    poller_.store(&call->poller());
    call->Finish({});
  }
  void OnCancelled(ServerCall* /*call*/) override {}
  const Poller* last() const { return poller_.load(); }

 private:
  std::atomic<const Poller*> poller_{nullptr};
};

// Where one RDMA device alone is served, a wildcard does not say which of the
// host's addresses lead to it.
TEST_F(TransportTest, AClientThatAsksIsToldTheAddressesOfItsServer) {
  PollerNote note;
  ServerEndpoint::Options options;
  options.endpoint = TestOptions();
  options.addresses = {"0.0.0.0:0"};
  const auto endpoint = *ServerEndpoint::Start(options, note);
  const auto port = static_cast<uint16_t>(endpoint->listening().front().port);
  std::vector<base::SocketAddress> expected;
  if (options.endpoint.device == kSoftDevice) {
    for (base::SocketAddress address : base::InterfaceAddresses()) {
      address.set_port(port);
      if (address.family() == AF_INET &&
          expected.size() < kServerAddressesMax) {
        expected.push_back(address);
      }
    }
  }
  base::SocketAddress target =
      *base::SocketAddress::Parse(testing_support::TestListenAddress());
  target.set_port(port);
  for (const bool asks : {false, true}) {
    EndpointOptions client_options = TestOptions();
    client_options.ask_addresses = asks;
    TestClient client(target.ToString(), client_options);
    const ServerAddresses told = client.connection().server_addresses();
    EXPECT_EQ(told.server.empty(), !asks || expected.empty());
    EXPECT_EQ(told.addresses,
              asks ? expected : std::vector<base::SocketAddress>());
  }
}

// However they came and went before.
TEST_F(TransportTest, APollerGetsNoConnectionWhileAnotherHasFewer) {
  PollerNote note;
  ServerEndpoint::Options options;
  options.endpoint = TestOptions();
  options.addresses = {testing_support::TestListenAddress()};
  options.pollers = 2;
  const auto endpoint = *ServerEndpoint::Start(options, note);
  const std::string& address = endpoint->listening().front().address;
  const auto await_connections = [&endpoint](uint32_t count) {
    const absl::Time deadline = base::Now() + kTestTimeout;
    while (endpoint->connection_count() != count && base::Now() < deadline) {
      std::this_thread::yield();
    }
    EXPECT_EQ(endpoint->connection_count(), count);
  };
  std::map<const Poller*, std::vector<std::unique_ptr<TestClient>>> clients;
  const auto connect = [&] {
    auto client = std::make_unique<TestClient>(address);
    TestCall call("");
    EXPECT_TRUE(client->Run(call).ok());
    clients[note.last()].push_back(std::move(client));
  };
  for (int i = 0; i < 4; ++i) connect();
  ASSERT_EQ(clients.size(), 2u);
  std::vector<std::unique_ptr<TestClient>>& some = clients.begin()->second;
  ASSERT_EQ(some.size(), 2u);
  some.clear();
  await_connections(2);
  for (int i = 0; i < 2; ++i) connect();
  EXPECT_EQ(some.size(), 2u);
  clients.clear();
  await_connections(0);
}

TEST_F(TransportTest, NamesItsPeerAndItsDevice) {
  TestClient client(server_.address());
  EXPECT_EQ(client.connection().peer(), server_.address());
  EXPECT_FALSE(client.connection().device_name().empty());
  EXPECT_TRUE(client.connection().failure().ok());
  EXPECT_FALSE(client.connection().draining());
}

}  // namespace
}  // namespace verbena::transport
