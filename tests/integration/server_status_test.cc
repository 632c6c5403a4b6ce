// Tests of Server::GetStatus() and of extensions of servers.

#include "rpc/server_status.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "tests/integration/end_to_end_fixture.h"

namespace verbena::end_to_end {
namespace {

// Long enough for any machine.
constexpr absl::Duration kPatience = absl::Minutes(2);

class ServerStatusTest : public EndToEndTest {
 protected:
  ~ServerStatusTest() override { StopServer(); }

  ServerStatus Look() {
    ServerStatus status = server().GetStatus(kPatience);
    EXPECT_FALSE(status.incomplete);
    return status;
  }
};

TEST_F(ServerStatusTest, SaysWhatTheBuilderWasTold) {
  StartServer([](ServerBuilder& builder) {
    builder.SetMaxConcurrentCalls(17)
        .SetMaxConcurrentStreams(3)
        .SetMaxConcurrentCallsPerConnection(5)
        .SetMaxWorkerThreads(12)
        .SetWorkerThreads(2)
        .SetWorkerQueueLimit(70);
  });
  const ServerLimits limits = Look().limits;
  EXPECT_EQ(limits.concurrent_calls, 17);
  EXPECT_EQ(limits.concurrent_streams, 3);
  EXPECT_EQ(limits.connection_calls, 5);
  EXPECT_EQ(limits.worker_threads, 12);
  EXPECT_EQ(limits.worker_queue, 70);
  EXPECT_EQ(limits.bulk_bytes, int64_t{512} << 20);
}

TEST_F(ServerStatusTest, ListsConnectionsOfAllPollers) {
  StartServer([](ServerBuilder& builder) { builder.SetPollers(2); });
  const auto one = EndToEnd::NewStub(NewChannel());
  const auto other = EndToEnd::NewStub(NewChannel());
  EXPECT_EQ(EchoProblem(*one, 10, 1), "");
  EXPECT_EQ(EchoProblem(*other, 10, 2), "");
  const ServerStatus status = Look();
  EXPECT_EQ(status.connection_count, 2u);
  ASSERT_EQ(status.connections.size(), 2u);
  EXPECT_NE(status.connections[0].peer, status.connections[1].peer);
  for (const ConnectionStatus& connection : status.connections) {
    EXPECT_EQ(connection.state, "open");
    EXPECT_EQ(connection.open_calls, 0u);
    EXPECT_GT(connection.receive_window, 0u);
    EXPECT_NE(connection.device, "");
  }
}

TEST_F(ServerStatusTest, ACallIsOpenAndThenWasSlow) {
  StartServer();
  const auto stub = EndToEnd::NewStub(NewChannel());
  const auto blocked = Block(stub.get(), "status");
  service().AwaitBlocked("status");
  ServerStatus status = Look();
  ASSERT_EQ(status.open_calls.size(), 1u);
  EXPECT_EQ(status.open_call_count, 1u);
  EXPECT_EQ(status.open_calls[0].method, "verbena.end_to_end.EndToEnd/Block");
  EXPECT_EQ(status.open_calls[0].state, "at its handler");
  EXPECT_EQ(status.open_calls[0].peer, status.connections[0].peer);
  EXPECT_EQ(status.connections[0].open_calls, 1u);
  const absl::Duration age = status.open_calls[0].age.value();
  EXPECT_GT(age, absl::ZeroDuration());
  // Calls are slow from a millisecond on.
  do {
    status = Look();
  } while (status.open_calls[0].age.value() < absl::Milliseconds(2));
  EXPECT_GT(status.open_calls[0].age.value(), age);
  service().Release("status");
  blocked->thread.join();
  EXPECT_EQ(blocked->status, absl::OkStatus());

  status = Look();
  EXPECT_TRUE(status.open_calls.empty());
  ASSERT_GE(status.slow_calls.size(), 1u);
  const SlowCallStatus* slowest = nullptr;
  for (const SlowCallStatus& call : status.slow_calls) {
    if (call.method == "verbena.end_to_end.EndToEnd/Block") slowest = &call;
  }
  ASSERT_NE(slowest, nullptr);
  EXPECT_EQ(slowest->code, absl::StatusCode::kOk);
  EXPECT_EQ(slowest->peer, status.connections[0].peer);
  EXPECT_GE(slowest->latency, absl::Milliseconds(2));
}

TEST_F(ServerStatusTest, ACallWithoutAThreadWaitsForAWorker) {
  StartServer([](ServerBuilder& builder) {
    builder.SetWorkerThreads(1).SetMaxWorkerThreads(1);
  });
  const auto stub = EndToEnd::NewStub(NewChannel());
  const auto first = Block(stub.get(), "first");
  service().AwaitBlocked("first");
  const auto second = Block(stub.get(), "second");
  ServerStatus status;
  do {
    status = Look();
  } while (status.open_calls.size() < 2);
  int waiting = 0;
  for (const OpenCallStatus& call : status.open_calls) {
    if (call.state == "waits for a worker") ++waiting;
  }
  EXPECT_EQ(waiting, 1);
  service().Release("first");
  service().Release("second");
  first->thread.join();
  second->thread.join();
}

TEST_F(ServerStatusTest, AServerThatIsShutDownSaysThatItIsNotAllThere) {
  StartServer();
  server().Shutdown();
  const ServerStatus status = server().GetStatus(kPatience);
  EXPECT_TRUE(status.incomplete);
  EXPECT_TRUE(status.connections.empty());
  EXPECT_GT(status.limits.worker_threads, 0);
}

// Says when it is destroyed, and that the server is there by then.
class Witness final : public ServerExtension {
 public:
  Witness(const Server& server, std::string* said)
      : server_(server), said_(said) {
    *said_ += "comes;";
  }
  ~Witness() override {
    *said_ += server_.listening().empty() ? "too late;" : "goes;";
    (void)server_.GetStatus();
  }

 private:
  const Server& server_;
  std::string* const said_;
};

TEST_F(ServerStatusTest, AnExtensionIsThereAsLongAsTheServer) {
  std::string said;
  StartServer([&said](ServerBuilder& builder) {
    builder.AddExtension([&said](const Server& server) {
      return std::make_unique<Witness>(server, &said);
    });
  });
  EXPECT_EQ(said, "comes;");
  server().Shutdown();
  EXPECT_EQ(said, "comes;");
  StopServer();
  EXPECT_EQ(said, "comes;goes;");
}

TEST(ServerExtension, WithoutOneThatCannotStartThereIsNoServer) {
  std::string said;
  ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0").SetDevice("soft");
  builder.AddExtension([&said](const Server& server) {
    return std::make_unique<Witness>(server, &said);
  });
  builder.AddExtension([](const Server& /*server*/)
                           -> absl::StatusOr<std::unique_ptr<ServerExtension>> {
    return absl::AbortedError("not today");
  });
  EXPECT_EQ(builder.BuildAndStart().status(), absl::AbortedError("not today"));
  EXPECT_EQ(said, "comes;goes;");
}

}  // namespace
}  // namespace verbena::end_to_end
