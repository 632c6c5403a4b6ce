// Connections over RDMA and TCP: both lead to one server over the software
// device, and the one that stands for RDMA is broken when the test wants it.

#include "rpc/internal/client/subchannel_connections.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "rpc/internal/client/shared_pollers.h"
#include "transport/base/log.h"
#include "transport/device.h"
#include "transport/polling/task.h"
#include "transport/server/server_call.h"
#include "transport/server_endpoint.h"

namespace verbena::internal {
namespace {

using Change = SubchannelConnections::Change;

const transport::Provider& SoftProvider() {
  return *transport::ListenProviders(transport::kSoftDevice)[0];
}

// How connecting over RDMA fails: at once, or not before connect_timeout.
enum class Rdma { kWorks, kRefuses, kIsSilent };
std::atomic<Rdma> rdma{Rdma::kWorks};
int refusals = 0;  // Attempts over RDMA that were refused.

const transport::Provider& RdmaProvider() {
  static const transport::Provider* const provider = [] {
    auto* const made = new transport::Provider(SoftProvider());
    made->cm.connect = [](rdma_cm_id* id, rdma_conn_param* parameters) {
      switch (rdma.load()) {
        case Rdma::kWorks:
          return SoftProvider().cm.connect(id, parameters);
        case Rdma::kRefuses:
          ++refusals;
          errno = ENETUNREACH;
          return -1;
        case Rdma::kIsSilent:
          return 0;
      }
      return -1;
    };
    return made;
  }();
  return *provider;
}

class NoCalls final : public transport::ServerHandler {
 public:
  void OnCall(transport::ServerCall* call) override {
    transport::ServerReply reply;
    reply.status = absl::UnimplementedError("no calls");
    call->Finish(std::move(reply));
  }
  void OnCancelled(transport::ServerCall* /*call*/) override {}
};

// Everything of the client runs in Step(), on the test's thread.
class SubchannelConnectionsTest : public testing::Test,
                                  public transport::ClientConnection::Observer {
 protected:
  SubchannelConnectionsTest() {
    rdma = Rdma::kWorks;
    options_.max_open_calls = 2;
    transport::ServerEndpoint::Options options;
    options.addresses = {"127.0.0.1:0", "127.0.0.1:0"};
    options.provider = &SoftProvider();
    server_ = *transport::ServerEndpoint::Start(options, handler_);
    poller_ = *pollers_.Join(absl::ZeroDuration());
    Run([this] {
      connections_ = std::make_unique<SubchannelConnections>(
          poller_, options_, this, [this] { Look(); },
          SubchannelConnections::Delays{absl::Milliseconds(5),
                                        absl::Milliseconds(20),
                                        absl::Milliseconds(20)},
          /*max_per_address=*/3);
      poller_->AddPending();
    });
  }
  ~SubchannelConnectionsTest() override {
    Run([this] {
      connections_->CloseAll();
      poller_->RemovePending();
    });
    connections_.reset();
    pollers_.Leave(poller_);
  }

  void OnConnected() override { Look(); }
  void OnUnusable() override { Look(); }
  void Look() {
    for (;;) {
      const Change change = connections_->Look();
      if (change == Change::kNothing) return;
      changes_.push_back(change);
    }
  }

  // Runs `work` with the poller's ownership.
  void Run(std::function<void()> work) {
    class Work final : public transport::Task {
     public:
      explicit Work(std::function<void()> what) : what_(std::move(what)) {}
      void Run() override {
        what_();
        done = true;
      }
      bool done = false;

     private:
      const std::function<void()> what_;
    };
    Work task(std::move(work));
    poller_->PostFromOutside(&task);
    while (!task.done) pollers_.Step();
  }

  void Begin() {
    const base::SocketAddress address =
        *base::SocketAddress::ParseNumeric(server_->listening()[0].address);
    Run([this, address] {
      connections_->Begin({{.address = address,
                            .provider = &RdmaProvider(),
                            .has_fallback = true},
                           {.address = address,
                            .provider = &SoftProvider(),
                            .is_fallback = true}});
    });
  }

  // The next change, which must come within ten seconds.
  Change Next() {
    const absl::Time deadline = absl::Now() + absl::Seconds(10);
    while (changes_.empty() && absl::Now() < deadline) pollers_.Step();
    if (changes_.empty()) {
      ADD_FAILURE() << "nothing has changed";
      return Change::kNothing;
    }
    const Change next = changes_.front();
    changes_.erase(changes_.begin());
    return next;
  }

  // The client loses its connection.
  void RestartServer() {
    // Waits until the client has disconnected, which it does in Step().
    std::future<void> down = std::async(
        std::launch::async, [this] { server_->Shutdown(absl::Now()); });
    EXPECT_EQ(Next(), Change::kLost);
    while (down.wait_for(std::chrono::seconds(0)) !=
           std::future_status::ready) {
      pollers_.Step();
    }
    transport::ServerEndpoint::Options options;
    options.addresses = {server_->listening()[0].address};
    options.provider = &SoftProvider();
    server_ = *transport::ServerEndpoint::Start(options, handler_);
  }

  NoCalls handler_;
  std::unique_ptr<transport::ServerEndpoint> server_;
  SharedPollers pollers_{1, SharedPollers::Drive::kByStep};
  transport::EndpointOptions options_;
  SharedPoller* poller_ = nullptr;
  std::unique_ptr<SubchannelConnections> connections_;
  std::vector<Change> changes_;
};

TEST_F(SubchannelConnectionsTest, RdmaThatWorksIsTaken) {
  Begin();
  EXPECT_EQ(Next(), Change::kConnected);
  EXPECT_FALSE(connections_->fell_back());
}

TEST_F(SubchannelConnectionsTest, TcpIsTakenWhereRdmaRefuses) {
  rdma = Rdma::kRefuses;
  Begin();
  EXPECT_EQ(Next(), Change::kConnected);
  EXPECT_TRUE(connections_->fell_back());
  EXPECT_FALSE(connections_->rdma_error().ok());
}

TEST_F(SubchannelConnectionsTest, TcpIsTakenBesideRdmaThatIsSilent) {
  rdma = Rdma::kIsSilent;
  Begin();
  EXPECT_EQ(Next(), Change::kConnected);
  EXPECT_TRUE(connections_->fell_back());
}

TEST_F(SubchannelConnectionsTest, RdmaThatIsBackTakesThePlaceOfTcp) {
  rdma = Rdma::kRefuses;
  Begin();
  EXPECT_EQ(Next(), Change::kConnected);
  EXPECT_TRUE(connections_->fell_back());
  rdma = Rdma::kWorks;
  EXPECT_EQ(Next(), Change::kReplaced);
  EXPECT_FALSE(connections_->fell_back());
}

// As when the device was removed: the next lookup finds TCP alone.
TEST_F(SubchannelConnectionsTest, RdmaThatHasNoDeviceForAWhileIsTriedAgain) {
  Begin();
  EXPECT_EQ(Next(), Change::kConnected);
  rdma = Rdma::kRefuses;
  RestartServer();
  const base::SocketAddress address =
      *base::SocketAddress::ParseNumeric(server_->listening()[0].address);
  Run([this, address] {
    connections_->Begin({{.address = address, .provider = &SoftProvider()}});
  });
  EXPECT_EQ(Next(), Change::kConnected);
  EXPECT_TRUE(connections_->fell_back());
  rdma = Rdma::kWorks;
  EXPECT_EQ(Next(), Change::kReplaced);
  EXPECT_FALSE(connections_->fell_back());
}

TEST_F(SubchannelConnectionsTest, AnAttemptFailsWhenBothHave) {
  rdma = Rdma::kRefuses;
  server_->Shutdown(absl::Now());
  Begin();
  EXPECT_EQ(Next(), Change::kFailed);
  EXPECT_FALSE(connections_->outcome().first_error.ok());
}

TEST_F(SubchannelConnectionsTest, ALostServerIsNoticedWhateverLedThere) {
  for (const Rdma how : {Rdma::kWorks, Rdma::kRefuses}) {
    rdma = how;
    Begin();
    EXPECT_EQ(Next(), Change::kConnected);
    RestartServer();
  }
}

// Paths lead to the second address of the server.
class PathsTest : public SubchannelConnectionsTest {
 protected:
  PathsTest() {
    Begin();
    EXPECT_EQ(Next(), Change::kConnected);
  }

  // `server` is the word by which the first connection knows it: none, because
  // a server does not tell of addresses that only its own host reaches.
  void UsePath(const std::string& server = "") {
    const base::SocketAddress address =
        *base::SocketAddress::ParseNumeric(server_->listening()[1].address);
    Run([this, address, server] {
      connections_->UsePaths(server, {{.address = address,
                                       .provider = &RdmaProvider(),
                                       .has_fallback = true}});
    });
  }
  bool PollUntil(const std::function<bool()>& done) {
    const absl::Time deadline = absl::Now() + absl::Seconds(10);
    while (!done() && absl::Now() < deadline) pollers_.Step();
    return done();
  }
  // Polls until the number of connections that take calls is `count`.
  bool WaitForReady(size_t count) {
    return PollUntil([this, count] { return connections_->ready() == count; });
  }
};

// A call that has a method which no server has. It ends when the test polls.
class Call final : public transport::ClientCall {
 public:
  void WriteRequest(uint8_t* /*out*/) override {}
  void OnResponse(const transport::CallResponse& /*response*/) override {
    ended = true;
  }
  void OnFailed(const absl::Status& /*status*/) override { ended = true; }

  bool ended = false;
};

TEST_F(PathsTest, AConnectionToAnotherAddressTakesCallsToo) {
  UsePath();
  EXPECT_TRUE(WaitForReady(2));
  EXPECT_EQ(connections_->Pick(), connections_->current());
}

TEST_F(PathsTest, ACallGoesToTheConnectionWithTheLeastOpenCalls) {
  UsePath();
  ASSERT_TRUE(WaitForReady(2));
  Call call;
  Run([&] {
    transport::ClientConnection* const first = connections_->Pick();
    first->Start(&call);
    EXPECT_NE(connections_->Pick(), first);
  });
  while (!call.ended) pollers_.Step();
  EXPECT_EQ(connections_->Pick(), connections_->current());
}

TEST_F(PathsTest, AFullConnectionGetsOneBesideIt) {
  // Starts calls at once, of which a connection takes two, and returns when
  // they have ended.
  const auto call = [this](size_t count) {
    std::vector<Call> calls(count);
    Run([&] {
      for (Call& each : calls) connections_->Pick()->Start(&each);
    });
    for (const Call& each : calls) {
      while (!each.ended) pollers_.Step();
    }
  };
  call(2);
  ASSERT_TRUE(WaitForReady(2));
  call(2);
  EXPECT_EQ(connections_->ready(), 2u);
  call(4);
  ASSERT_TRUE(WaitForReady(3));
  // There are no more.
  call(9);
  EXPECT_EQ(connections_->ready(), 3u);
  // Without calls one is enough.
  EXPECT_TRUE(WaitForReady(1));
}

TEST_F(PathsTest, TheLastOfSeveralConnectionsToAnAddressStays) {
  std::vector<Call> calls(2);
  Run([&] {
    for (Call& each : calls) connections_->Pick()->Start(&each);
  });
  ASSERT_TRUE(WaitForReady(2));
  Run([this] {
    connections_->current()->Close();
    Look();
  });
  EXPECT_EQ(Next(), Change::kReplaced);
  // The time passes at which there would be one less.
  const absl::Time end = absl::Now() + absl::Milliseconds(60);
  while (absl::Now() < end) pollers_.Step();
  EXPECT_EQ(connections_->ready(), 1u);
  for (const Call& each : calls) EXPECT_TRUE(each.ended);
}

TEST_F(PathsTest, APathTakesThePlaceOfAFirstThatIsLost) {
  UsePath();
  ASSERT_TRUE(WaitForReady(2));
  transport::ClientConnection* path = nullptr;
  Run([&] {
    connections_->current()->Close();
    // Before anybody has looked, too, calls go where they can.
    path = connections_->Pick();
    Look();
  });
  EXPECT_EQ(Next(), Change::kReplaced);
  EXPECT_EQ(connections_->current(), path);
  EXPECT_TRUE(path->usable());
}

TEST_F(PathsTest, AnotherServerIsNoPath) {
  // The server's threads write to the log, too.
  std::atomic<bool> told = false;
  base::Log::OfProcess().Set(
      [&told](const LogEntry& entry) {
        if (absl::StrContains(entry.text, "another server answers")) {
          told = true;
        }
      },
      LogSeverity::kInfo);
  UsePath("another");
  EXPECT_TRUE(PollUntil([&told] { return told.load(); }));
  base::Log::OfProcess().Set(nullptr, LogSeverity::kWarning);
  EXPECT_EQ(connections_->ready(), 1u);
}

TEST_F(PathsTest, APathThatFailsIsTriedAgain) {
  refusals = 0;
  rdma = Rdma::kRefuses;
  UsePath();
  ASSERT_TRUE(PollUntil([] { return refusals > 0; }));
  EXPECT_EQ(connections_->ready(), 1u);
  rdma = Rdma::kWorks;
  EXPECT_TRUE(WaitForReady(2));
}

}  // namespace
}  // namespace verbena::internal
