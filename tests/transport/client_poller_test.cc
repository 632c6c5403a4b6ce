// Many connections of clients on one poller: they share what it has, and one
// that begins, fails or ends holds up none of the others.

#include "transport/client/client_poller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/testing/test_device.h"
#include "tests/testing/transport_client.h"
#include "tests/transport/faulty_fixture.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/clock.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/socket_address.h"
#include "transport/client/client_connection.h"
#include "transport/faulty/fault_plan.h"
#include "transport/verbs/provider.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;
using testing_support::kTestTimeout;
using testing_support::TestBytes;
using testing_support::TestCall;
using testing_support::TestMethod;
using testing_support::TestOptions;
using testing_support::TestProvider;
using testing_support::TestServer;

// A poller that this thread has entered, and connections on it.
class Clients {
 public:
  // A connection, and what its observer has heard.
  class Client final : public ClientConnection::Observer {
   public:
    // Whether something was heard in the middle of `entering`.
    Client(Clients& clients, const bool& entering)
        : clients_(clients), entering_(entering) {}
    void OnConnected() override {
      EXPECT_FALSE(entering_);
      EXPECT_EQ(unusable, 0);
      ++connected;
      if (on_connected) on_connected();
    }
    void OnUnusable() override {
      EXPECT_FALSE(entering_);
      ++unusable;
      if (on_unusable) on_unusable();
    }
    void Start(TestCall& call) {
      clients_.Within([&] { connection->Start(&call); });
    }
    void Close() {
      clients_.Within([&] { clients_.poller_->Close(std::move(connection)); });
    }

    std::unique_ptr<ClientConnection> connection;
    int connected = 0;
    int unusable = 0;
    std::function<void()> on_connected;
    std::function<void()> on_unusable;

   private:
    Clients& clients_;
    const bool& entering_;
  };

  Clients() { poller_->poller().Enter(); }
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;
  ~Clients() {
    for (const auto& client : all_) {
      if (client->connection != nullptr) client->Close();
    }
    poller_->poller().Leave();
  }

  Client& Connect(const std::string& address,
                  const EndpointOptions& options = TestOptions(),
                  const Provider& provider = TestProvider()) {
    all_.push_back(std::make_unique<Client>(*this, entering_));
    Client& client = *all_.back();
    Within([&] {
      client.connection = poller_->Connect(
          provider, *base::SocketAddress::ParseNumeric(address), options,
          &client);
    });
    return client;
  }
  Client& Connected(const std::string& address,
                    const EndpointOptions& options = TestOptions(),
                    const Provider& provider = TestProvider()) {
    Client& client = Connect(address, options, provider);
    EXPECT_TRUE(RunUntil([&] { return client.connected > 0; }))
        << client.connection->failure();
    return client;
  }

  // Has RunUntil() look again. Any thread.
  void Wake() { poller_->poller().Wake(); }

  bool RunUntil(absl::FunctionRef<bool()> done) {
    poller_->poller().PollUntil(done, base::Now() + kTestTimeout);
    return done();
  }
  absl::Status Echo(Client& client, size_t bytes) {
    TestCall call(TestBytes(bytes, static_cast<uint32_t>(bytes)));
    client.Start(call);
    if (!RunUntil([&] { return call.done(); })) {
      client.connection->Cancel(&call, absl::UnknownError("given up"));
      return absl::DeadlineExceededError("the call does not end");
    }
    if (call.status().ok() && call.reply() != call.sent()) {
      return absl::DataLossError("the echo came back changed");
    }
    return call.status();
  }

 private:
  void Within(absl::FunctionRef<void()> enter) {
    const bool outer = std::exchange(entering_, true);
    enter();
    entering_ = outer;
  }

  const std::unique_ptr<ClientPoller> poller_ = *ClientPoller::Create();
  bool entering_ = false;
  std::vector<std::unique_ptr<Client>> all_;
};

using Client = Clients::Client;

EndpointOptions Impatient(absl::Duration connect_timeout) {
  EndpointOptions options = TestOptions();
  options.connect_timeout = connect_timeout;
  return options;
}

size_t Descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

class ClientPollerTest : public testing::Test {
 protected:
  TestServer server_;
  Clients clients_;
};

TEST_F(ClientPollerTest, ConnectionsShareDescriptors) {
  EXPECT_TRUE(clients_.Echo(clients_.Connected(server_.address()), 64).ok());
  const size_t before = Descriptors();
  // Beyond what the first queues have room for, and the second.
  constexpr size_t kMore = 40;
  std::vector<Client*> more;
  for (size_t i = 0; i < kMore; ++i) {
    more.push_back(&clients_.Connect(server_.address()));
  }
  for (Client* client : more) {
    ASSERT_TRUE(clients_.RunUntil([&] { return client->connected > 0; }));
    EXPECT_TRUE(clients_.Echo(*client, 64).ok());
    EXPECT_TRUE(clients_.Echo(*client, 100000).ok());
  }
  const size_t each = (Descriptors() - before) / kMore;
  std::printf("%zu descriptors for each connection, both ends together\n",
              each);
  EXPECT_LE(each, 2u);
}

TEST_F(ClientPollerTest, CallsOfAllGoOnTogether) {
  std::vector<Client*> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(&clients_.Connected(server_.address()));
  }
  std::vector<std::unique_ptr<TestCall>> calls;
  for (uint32_t i = 0; i < 160; ++i) {
    calls.push_back(
        std::make_unique<TestCall>(TestBytes(i % 5 == 0 ? 200000 : 500, i)));
    clients[i % clients.size()]->Start(*calls.back());
  }
  for (const auto& call : calls) {
    ASSERT_TRUE(clients_.RunUntil([&] { return call->done(); }));
    EXPECT_TRUE(call->status().ok()) << call->status();
    EXPECT_TRUE(call->reply() == call->sent());
  }
}

TEST_F(ClientPollerTest, OneThatIsNotAnsweredHoldsUpNobody) {
  const std::unique_ptr<RawListener> silent = *RawListener::Create();
  Client& good = clients_.Connected(server_.address());
  Client& late =
      clients_.Connect(silent->address(), Impatient(absl::Milliseconds(300)));
  int echoes = 0;
  while (late.connection->connecting()) {
    ASSERT_TRUE(clients_.Echo(good, 64).ok());
    ++echoes;
  }
  EXPECT_GT(echoes, 1);
  ASSERT_TRUE(clients_.RunUntil([&] { return late.unusable > 0; }));
  EXPECT_EQ(late.connected, 0);
  EXPECT_EQ(late.connection->failure(),
            absl::UnavailableError(
                absl::StrCat("connecting to ", silent->address(),
                             " timed out while waiting for ESTABLISHED")));
}

TEST_F(ClientPollerTest, OneThatIsRefusedHoldsUpNobody) {
  std::string nobody;
  {
    const TestServer gone;
    nobody = gone.address();
  }
  Client& good = clients_.Connected(server_.address());
  Client& refused = clients_.Connect(nobody);
  while (refused.connection->connecting()) {
    ASSERT_TRUE(clients_.Echo(good, 64).ok());
  }
  ASSERT_TRUE(clients_.RunUntil([&] { return refused.unusable > 0; }));
  EXPECT_EQ(refused.connected, 0);
  EXPECT_TRUE(absl::IsUnavailable(refused.connection->failure()));
  EXPECT_THAT(refused.connection->failure().message(),
              testing::HasSubstr("refused, nobody listens there"));
}

TEST_F(ClientPollerTest, OneThatConnectsOrHasFailedTakesNoCalls) {
  Client& client = clients_.Connect(server_.address());
  EXPECT_EQ(client.connection->device_name(), "");
  TestCall early("early");
  client.Start(early);
  EXPECT_TRUE(early.done());
  EXPECT_TRUE(absl::IsUnavailable(early.status()));
  Client& bad =
      clients_.Connect(server_.address(), Impatient(-absl::Seconds(1)));
  EXPECT_TRUE(bad.connection->failed());
  EXPECT_EQ(bad.unusable, 0);
  TestCall late("late");
  bad.Start(late);
  EXPECT_EQ(late.status(), bad.connection->failure());
  bad.connection->Cancel(&late, absl::CancelledError(""));
  EXPECT_EQ(late.ends(), 1);
  ASSERT_TRUE(clients_.RunUntil([&] { return bad.unusable > 0; }));
  EXPECT_TRUE(absl::IsInvalidArgument(bad.connection->failure()));
  ASSERT_TRUE(clients_.RunUntil([&] { return client.connected > 0; }));
  EXPECT_FALSE(client.connection->device_name().empty());
  EXPECT_TRUE(clients_.Echo(client, 64).ok());
}

TEST_F(ClientPollerTest, ClosingEndsOpenCallsAndNobodyElses) {
  Client& stays = clients_.Connected(server_.address());
  Client& goes = clients_.Connected(server_.address());
  TestCall::Options options;
  options.method = TestMethod::kHold;
  TestCall held("held", options);
  TestCall open("open", options);
  stays.Start(held);
  goes.Start(open);
  EXPECT_TRUE(clients_.Echo(goes, 64).ok());
  goes.Close();
  EXPECT_TRUE(open.done());
  EXPECT_TRUE(absl::IsUnavailable(open.status()));
  EXPECT_TRUE(clients_.Echo(stays, 64).ok());
  EXPECT_TRUE(server_.AwaitConnections(1));
  server_.handler().Release();
  ASSERT_TRUE(clients_.RunUntil([&] { return held.done(); }));
  EXPECT_TRUE(held.status().ok()) << held.status();
  EXPECT_EQ(goes.unusable, 0);
}

TEST_F(ClientPollerTest, MayCloseAtAnyStepOfConnecting) {
  Client& stays = clients_.Connected(server_.address());
  bool last = false;
  for (int polls = 0; !last; ++polls) {
    Client& goes = clients_.Connect(server_.address());
    // By polls, so that every step is met; what is between is up to the peer.
    for (int i = 0; i < polls && goes.connected == 0; ++i) {
      stays.connection->poller().Sleep(absl::InfinitePast());
    }
    last = goes.connected > 0 || polls == 200;
    goes.Close();
    ASSERT_TRUE(clients_.Echo(stays, 64).ok());
  }
  EXPECT_TRUE(server_.AwaitConnections(1));
}

TEST_F(ClientPollerTest, MayCloseInWhatTheObserverHears) {
  Client& first = clients_.Connect(server_.address());
  first.on_connected = [&] { first.Close(); };
  EXPECT_TRUE(clients_.RunUntil([&] { return first.connected > 0; }));
  Client& second =
      clients_.Connect(server_.address(), Impatient(absl::ZeroDuration()));
  second.on_unusable = [&] { second.Close(); };
  EXPECT_TRUE(clients_.RunUntil([&] { return second.unusable > 0; }));
  EXPECT_TRUE(clients_.Echo(clients_.Connected(server_.address()), 64).ok());
  EXPECT_EQ(first.connected + first.unusable, 1);
  EXPECT_EQ(second.connected + second.unusable, 1);
}

// Which has waited in vain for a client that is kept from polling.
TEST_F(ClientPollerTest, HearsWhyAServerLeftBeforeItHadSaidAnything) {
  const std::unique_ptr<RawListener> listener = *RawListener::Create();
  Client& client = clients_.Connect(listener->address());
  std::unique_ptr<RawPeer> server;
  std::atomic<bool> asked = false;
  std::thread taker([&] {
    server = *listener->Next();
    asked = true;
    clients_.Wake();
  });
  EXPECT_TRUE(clients_.RunUntil([&asked] { return asked.load(); }));
  taker.join();
  ASSERT_TRUE(server->BeginAccept(EncodeConnectReply({server->Limits()})).ok());
  ASSERT_TRUE(
      server->Send(FrameText(server->Header(FrameType::kBye), "too late"))
          .ok());
  EXPECT_TRUE(clients_.RunUntil([&client] { return client.unusable > 0; }));
  EXPECT_THAT(client.connection->failure().message(), HasSubstr("too late"));
}

TEST_F(ClientPollerTest, TellsOfAServerThatDrainsAndThenEnds) {
  auto server = std::make_unique<TestServer>();
  Client& client = clients_.Connected(server->address());
  TestCall::Options options;
  options.method = TestMethod::kHold;
  TestCall held("held", options);
  client.Start(held);
  EXPECT_TRUE(clients_.Echo(client, 64).ok());
  std::thread ends(
      [&] { server->endpoint().Shutdown(base::Now() + kTestTimeout); });
  EXPECT_TRUE(clients_.RunUntil([&] { return client.unusable == 1; }));
  EXPECT_TRUE(client.connection->draining());
  EXPECT_FALSE(client.connection->failed());
  EXPECT_FALSE(held.done());
  server->handler().Release();
  EXPECT_TRUE(clients_.RunUntil([&] { return client.unusable == 2; }));
  EXPECT_TRUE(held.status().ok()) << held.status();
  EXPECT_TRUE(client.connection->failed());
  ends.join();
}

// Each call of the device or of the connection manager that one more connection
// makes, and that those make no more which are connected, fails in turn.
class ClientPollerFaultsTest : public FaultyFixture {};

TEST_F(ClientPollerFaultsTest, ADeviceThatFailsForOneLetsTheOthersBe) {
  constexpr const char* kFunctions[] = {
      "alloc_pd",  "cm.create_qp", "connect",      "create_id",    "create_srq",
      "modify_qp", "reg_mr",       "resolve_addr", "resolve_route"};
  TestServer server;
  {
    Clients clients;
    Client& good =
        clients.Connected(server.address(), TestOptions(), faulty_.provider());
    for (const char* const function : kFunctions) {
      bool untouched = false;
      for (uint64_t n = 1; !untouched; ++n) {
        SCOPED_TRACE(absl::StrCat(function, " call ", n));
        FaultPlan plan;
        plan.FailCall(function, n, EIO);
        faulty_.SetPlan(plan);
        Client& bad = clients.Connect(server.address(), TestOptions(),
                                      faulty_.provider());
        ASSERT_TRUE(
            clients.RunUntil([&] { return !bad.connection->connecting(); }));
        ExpectClear(bad.connection->failure());
        untouched = plan.faults().empty();
        faulty_.SetPlan(no_faults_);
        EXPECT_EQ(bad.connection->usable(), untouched);
        bad.Close();
        ASSERT_TRUE(clients.Echo(good, 64).ok());
        ASSERT_TRUE(clients.Echo(good, 100000).ok());
      }
    }
    EXPECT_EQ(good.unusable, 0);
  }
  EXPECT_EQ(faulty_.objects(), 0u);
}

}  // namespace
}  // namespace verbena::transport
