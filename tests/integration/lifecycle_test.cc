// Servers and channels that come and go.

#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"
#include "tests/testing/child_process.h"

namespace verbena::end_to_end {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::ChildProcess;
using testing_support::WordAfter;

class LifecycleTest : public EndToEndTest {
 protected:
  // A call that waits for the server if it must.
  static std::string PatientEchoProblem(EndToEnd::Stub* stub) {
    ClientContext context;
    context.set_wait_for_ready(true);
    context.set_timeout(absl::Minutes(2));
    EchoRequest request;
    EchoReply reply;
    request.set_payload("hello");
    const absl::Status status = stub->Echo(&context, request, &reply);
    return status.ok() ? "" : status.ToString();
  }
};

class ServerProcess {
 public:
  explicit ServerProcess(const std::string& listen)
      : process_({EndToEndServerPath(), "--listen=" + listen}) {
    target_ = WordAfter("listening on ", process_.ReadLine());
    EXPECT_NE(target_, "") << process_.errors();
  }

  const std::string& target() const { return target_; }
  void Kill() {
    process_.Signal(SIGKILL);
    EXPECT_EQ(process_.Wait(), -SIGKILL);
  }
  void Terminate() {
    process_.Signal(SIGTERM);
    EXPECT_EQ(process_.Wait(), 0) << process_.errors();
  }

 private:
  ChildProcess process_;
  std::string target_;
};

TEST_F(LifecycleTest, WithoutAServerCallsAreUnavailable) {
  StartServer();
  StopServer();
  const auto channel = NewChannel();
  const auto stub = EndToEnd::NewStub(channel);
  ClientContext context;
  const absl::Status status = CallBlock(stub.get(), &context, "key");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(target()));
  EXPECT_EQ(channel->state(), ChannelState::kTransientFailure);
  EXPECT_EQ(channel->device(), "");
}

TEST_F(LifecycleTest, WithoutAServerAsynchronousCallsAreUnavailable) {
  StartServer();
  StopServer();
  const auto stub = EndToEnd::NewStub(NewChannel());
  AsyncEcho echo(stub.get(), 10, 1);
  Countdown countdown(1);
  echo.Start([&countdown] { countdown.Done(); });
  countdown.Wait();
  EXPECT_THAT(echo.problem(), HasSubstr("UNAVAILABLE"));
}

TEST_F(LifecycleTest, APatientCallWaitsForTheServer) {
  StartServer();
  StopServer();
  const auto stub = EndToEnd::NewStub(NewChannel());
  std::string problem = "never ended";
  std::thread caller([&] { problem = PatientEchoProblem(stub.get()); });
  ClientContext context;  // Sees to it that an attempt has failed by now.
  EXPECT_EQ(CallBlock(stub.get(), &context, "key").code(),
            absl::StatusCode::kUnavailable);
  StartServer({}, port());
  caller.join();
  EXPECT_EQ(problem, "");
}

TEST_F(LifecycleTest, APatientCallKeepsItsDeadline) {
  StartServer();
  StopServer();
  const auto stub = EndToEnd::NewStub(NewChannel());
  ClientContext context;
  context.set_wait_for_ready(true);
  context.set_timeout(absl::Milliseconds(200));
  EXPECT_EQ(CallBlock(stub.get(), &context, "key").code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(LifecycleTest, APatientCallCanBeCancelled) {
  StartServer();
  StopServer();
  const auto stub = EndToEnd::NewStub(NewChannel());
  ClientContext context;
  context.set_wait_for_ready(true);
  std::thread canceller([&context] { context.TryCancel(); });
  EXPECT_EQ(CallBlock(stub.get(), &context, "key").code(),
            absl::StatusCode::kCancelled);
  canceller.join();
}

TEST_F(LifecycleTest, WhoAsksForTheStateConnectsAgain) {
  StartServer();
  StopServer();
  const auto channel = NewChannel();
  const auto stub = EndToEnd::NewStub(channel);
  ClientContext context;
  EXPECT_EQ(CallBlock(stub.get(), &context, "key").code(),
            absl::StatusCode::kUnavailable);
  StartServer({}, port());
  while (channel->state(/*try_to_connect=*/true) != ChannelState::kReady) {
    std::this_thread::yield();
  }
}

TEST_F(LifecycleTest, WaitForConnectedConnects) {
  StartServer();
  const auto channel = NewChannel();
  EXPECT_EQ(channel->state(), ChannelState::kIdle);
  EXPECT_TRUE(channel->WaitForConnected(absl::Now() + absl::Minutes(2)));
  EXPECT_EQ(channel->state(), ChannelState::kReady);
}

TEST_F(LifecycleTest, WaitForConnectedGivesUpAtItsDeadline) {
  StartServer();
  StopServer();
  const auto channel = NewChannel();
  EXPECT_FALSE(
      channel->WaitForConnected(absl::Now() + absl::Milliseconds(100)));
}

TEST_F(LifecycleTest, AChannelConnectsAgainToAServerThatCameBack) {
  StartServer();
  const auto stub = EndToEnd::NewStub(NewChannel());
  EXPECT_EQ(EchoProblem(*stub, 100, 1), "");
  StopServer();
  ClientContext context;
  EXPECT_EQ(CallBlock(stub.get(), &context, "key").code(),
            absl::StatusCode::kUnavailable);
  StartServer({}, port());
  EXPECT_EQ(PatientEchoProblem(stub.get()), "");
  EXPECT_EQ(EchoProblem(*stub, 100000, 2), "");
}

TEST_F(LifecycleTest, AKilledServerEndsOpenCallsAndMayComeBack) {
  std::string listen = Address(0);
  ServerProcess first(listen);
  const auto channel = CreateChannel(first.target());
  const auto stub = EndToEnd::NewStub(channel);
  auto blocked = Block(stub.get(), "key");
  Countdown countdown(1);
  AsyncEcho large(stub.get(), 1 << 20, 1);
  large.Start([&countdown] { countdown.Done(); });
  countdown.Wait();
  EXPECT_EQ(large.problem(), "");
  ClientContext context;
  Key key;
  key.set_key("key");
  Nothing nothing;
  ASSERT_EQ(stub->AwaitBlocked(&context, key, &nothing), absl::OkStatus());
  first.Kill();
  blocked->thread.join();
  EXPECT_EQ(blocked->status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(blocked->status.message()),
              HasSubstr(first.target()));
  ServerProcess second(first.target());
  EXPECT_EQ(PatientEchoProblem(stub.get()), "");
  second.Terminate();
}

// The thread of the blocking call polls, and then sleeps, for both.
// The thread of the blocking call polls, and then sleeps, for both.
TEST_F(LifecycleTest, CallbacksComeWhileABlockingCallWaits) {
  ServerProcess process(Address(0));
  const auto stub = EndToEnd::NewStub(CreateChannel(process.target()));
  auto blocked = Block(stub.get(), "key");
  for (size_t bytes : {1 << 20, 10, 100000, 1 << 20, 10, 3 << 20}) {
    const absl::Time start = absl::Now();
    Countdown countdown(1);
    AsyncEcho echo(stub.get(), bytes, 1);
    echo.Start([&countdown] { countdown.Done(); });
    countdown.Wait();
    EXPECT_EQ(echo.problem(), "");
    EXPECT_EQ(EchoProblem(*stub, bytes, 2), "");
    // Nothing had to wait for a timer.
    EXPECT_LT(absl::Now() - start, absl::Seconds(5)) << bytes;
  }
  ClientContext context;
  Key key;
  key.set_key("key");
  Nothing nothing;
  ASSERT_EQ(stub->Release(&context, key, &nothing), absl::OkStatus());
  blocked->thread.join();
  EXPECT_EQ(blocked->status, absl::OkStatus());
  process.Terminate();
}

TEST_F(LifecycleTest, ShutdownWaitsForOpenCallsAndRefusesNewOnes) {
  StartServer();
  const auto stub = EndToEnd::NewStub(NewChannel());
  auto blocked = Block(stub.get(), "key");
  service().AwaitBlocked("key");
  std::thread shutdown([this] { server().Shutdown(); });
  // Calls get through until the client has heard of it, and then not any more.
  while (EchoProblem(*stub, 1, 1).empty()) {
  }
  EXPECT_THAT(EchoProblem(*stub, 1, 1), HasSubstr("UNAVAILABLE"));
  service().Release("key");
  blocked->thread.join();
  EXPECT_EQ(blocked->status, absl::OkStatus());
  shutdown.join();
  server().Wait();
  server().Shutdown();
}

TEST_F(LifecycleTest, ShutdownEndsCallsAtItsDeadline) {
  StartServer();
  const auto stub = EndToEnd::NewStub(NewChannel());
  auto blocked = Block(stub.get(), "key");
  service().AwaitBlocked("key");
  server().Shutdown(absl::Now() + absl::Milliseconds(50));
  blocked->thread.join();
  EXPECT_EQ(blocked->status.code(), absl::StatusCode::kUnavailable)
      << blocked->status;
  EXPECT_EQ(service().AwaitOutcome("key"), "cancelled");
}

TEST_F(LifecycleTest, ABusyServerRefusesWhatItsQueueDoesNotHold) {
  StartServer([](ServerBuilder& builder) {
    builder.SetWorkerThreads(1).SetMaxWorkerThreads(1).SetWorkerQueueLimit(1);
  });
  const auto channel = NewChannel();
  const auto stub = EndToEnd::NewStub(channel);
  const auto on_poller = Inline::NewStub(channel);
  auto running = Block(stub.get(), "running");
  service().AwaitBlocked("running");
  // The queue takes one of the two calls, the other one is refused.
  ClientContext contexts[2];
  Key request;
  request.set_key("queued");
  Nothing replies[2];
  std::vector<absl::Status> ends;
  Countdown first(1);
  Countdown both(2);
  for (int i = 0; i < 2; ++i) {
    stub->async()->Block(&contexts[i], &request, &replies[i],
                         [&](absl::Status status) {
                           ends.push_back(std::move(status));  // By one thread.
                           first.Done();
                           both.Done();
                         });
  }
  first.Wait();
  EXPECT_EQ(EchoProblem(*on_poller, 100, 1), "");
  service().Release("running");
  service().Release("queued");
  both.Wait();
  running->thread.join();
  EXPECT_EQ(ends[0].code(), absl::StatusCode::kResourceExhausted) << ends[0];
  EXPECT_THAT(std::string(ends[0].message()),
              AllOf(HasSubstr("1 wait, which is its limit"),
                    HasSubstr("SetWorkerQueueLimit"),
                    HasSubstr("SetMaxWorkerThreads")));
  EXPECT_EQ(ends[1], absl::OkStatus());
  EXPECT_EQ(running->status, absl::OkStatus());
}

TEST_F(LifecycleTest, AServerSpreadsConnectionsOverItsPollers) {
  StartServer([](ServerBuilder& builder) { builder.SetPollers(3); });
  for (int i = 0; i < 6; ++i) {
    const auto stub = EndToEnd::NewStub(NewChannel());
    EXPECT_EQ(EchoProblem(*stub, 100000, i), "");
  }
}

TEST_F(LifecycleTest, TheSameWithoutAnySpinning) {
  StartServer([](ServerBuilder& builder) {
    builder.SetSpinBudget(absl::ZeroDuration());
  });
  ChannelOptions options;
  options.spin_budget = absl::ZeroDuration();
  const auto stub = EndToEnd::NewStub(NewChannel(options));
  for (size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(EchoProblem(*stub, i * i * 100, i), "");
  }
  Countdown countdown(50);
  std::vector<std::unique_ptr<AsyncEcho>> echoes;
  for (size_t i = 0; i < 50; ++i) {
    echoes.push_back(std::make_unique<AsyncEcho>(stub.get(), i * i * 100, i));
    echoes.back()->Start([&countdown] { countdown.Done(); });
  }
  countdown.Wait();
  for (const auto& echo : echoes) EXPECT_EQ(echo->problem(), "");
}

}  // namespace
}  // namespace verbena::end_to_end
