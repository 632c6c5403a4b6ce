// Calls that go to a further server before the first has answered.

#include <algorithm>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/metrics.h"
#include "rpc/rpc.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"
#include "tests/testing/child_process.h"
#include "transport/base/mutex.h"

namespace verbena::end_to_end {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// Does with each call as the test has it.
class Actor final : public EndToEnd::Service {
 public:
  using Act = std::function<absl::Status(ServerContext*, EchoReply*)>;

  absl::Status Echo(ServerContext* context, const EchoRequest* request,
                    EchoReply* reply) override {
    Act act;
    {
      const base::MutexLock lock(mutex_);
      const auto previous =
          context->client_metadata().find("grpc-previous-rpc-attempts");
      previous_.push_back(
          previous == context->client_metadata().end() ? "" : previous->second);
      act = act_;
    }
    reply->set_payload(request->payload());
    const absl::Status status = act(context, reply);
    const base::MutexLock lock(mutex_);
    if (context->IsCancelled()) ++cancelled_;
    changed_.NotifyAll();
    return status;
  }

  void Do(Act act) {
    const base::MutexLock lock(mutex_);
    act_ = std::move(act);
  }
  void Forget() {
    const base::MutexLock lock(mutex_);
    previous_.clear();
  }
  // The number of attempts before, as each attempt had it.
  std::vector<std::string> previous() {
    const base::MutexLock lock(mutex_);
    return previous_;
  }
  void AwaitCancelled(int count) {
    const base::MutexLock lock(mutex_);
    while (cancelled_ < count) changed_.Wait(mutex_);
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  Act act_ ABSL_GUARDED_BY(mutex_) = Answer;
  std::vector<std::string> previous_ ABSL_GUARDED_BY(mutex_);
  int cancelled_ ABSL_GUARDED_BY(mutex_) = 0;

 public:
  static absl::Status Answer(ServerContext* /*context*/, EchoReply* /*reply*/) {
    return absl::OkStatus();
  }
  // Waits until the call is cancelled.
  static absl::Status Hang(ServerContext* context, EchoReply* /*reply*/) {
    base::Mutex mutex;
    base::CondVar cancelled;
    const std::stop_callback callback(context->stop_token(), [&] {
      const base::MutexLock lock(mutex);
      cancelled.NotifyAll();
    });
    const base::MutexLock lock(mutex);
    while (!context->IsCancelled()) cancelled.Wait(mutex);
    return absl::CancelledError("the client went");
  }
};

class HedgingTest : public ::testing::Test {
 protected:
  HedgingTest() {
    for (Actor& actor : actors_) {
      int port = 0;
      ServerBuilder builder;
      builder.AddListeningPort(testing_support::TestAddress() + ":0", &port);
      builder.RegisterService(&actor);
      servers_.push_back(*builder.BuildAndStart());
      addresses_.push_back(
          absl::StrCat(testing_support::TestAddress(), ":", port));
    }
  }

  // A stub whose calls go to each server in turn, the next after `delay`.
  std::unique_ptr<EndToEnd::Stub> NewStub(
      const std::string& delay,
      const std::string& policy = R"({"round_robin": {}})") {
    ChannelOptions options;
    options.service_config =
        absl::StrCat(R"({"loadBalancingConfig": [)", policy, R"(],
            "methodConfig": [{"name": [{}], "hedgingPolicy": {
              "maxAttempts": 3, "hedgingDelay": ")",
                     delay, R"(", "nonFatalStatusCodes": ["UNAVAILABLE"]}}]})");
    channel_ = CreateChannel("ipv4:" + absl::StrJoin(addresses_, ","), options);
    auto stub = EndToEnd::NewStub(channel_);
    // Without calls, whose late attempts would count.
    EXPECT_TRUE(channel_->WaitForConnected(absl::InfiniteFuture()));
    while (Connected() < addresses_.size()) std::this_thread::yield();
    return stub;
  }
  size_t Connected() {
    const auto servers = channel_->GetMetrics().servers;
    return std::count_if(servers.begin(), servers.end(),
                         [](const auto& server) { return server.connected; });
  }
  absl::Status Call(EndToEnd::Stub& stub,
                    absl::Duration timeout = absl::Minutes(1)) {
    ClientContext context;
    context.set_timeout(timeout);
    context.AddMetadata("user", "ada");
    EchoRequest request;
    request.set_payload("hello");
    EchoReply reply;
    const absl::Status status = stub.Echo(&context, request, &reply);
    EXPECT_EQ(reply.payload(), status.ok() ? "hello" : "");
    peer_ = context.peer();
    trailing_ = context.GetServerTrailingMetadata().size();
    return status;
  }
  void AllDo(const Actor::Act& act) {
    for (Actor& actor : actors_) actor.Do(act);
  }
  int attempts() {
    size_t count = 0;
    for (Actor& actor : actors_) count += actor.previous().size();
    return static_cast<int>(count);
  }

  Actor actors_[3];
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<std::string> addresses_;
  std::shared_ptr<Channel> channel_;
  std::string peer_;
  size_t trailing_ = 0;
};

TEST_F(HedgingTest, ACallThatIsAnsweredInTimeIsMadeOnce) {
  const auto stub = NewStub("3600s");
  const int before = attempts();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Call(*stub), absl::OkStatus());
  EXPECT_EQ(attempts(), before + 10);
}

TEST_F(HedgingTest, TheNextServerAnswersForOneThatHangs) {
  const auto stub = NewStub("0.01s");
  actors_[0].Do(Actor::Hang);
  actors_[1].Do(Actor::Hang);
  for (int i = 0; i < 9; ++i) {
    EXPECT_EQ(Call(*stub), absl::OkStatus());
    EXPECT_EQ(peer_, addresses_[2]);
  }
  // The others hear that nobody waits for them.
  actors_[0].AwaitCancelled(3);
  actors_[1].AwaitCancelled(3);
}

TEST_F(HedgingTest, FurtherAttemptsGoToServersThatHadNone) {
  // The key of all calls belongs to one server.
  const auto stub =
      NewStub("0.01s", R"({"ring_hash": {"requestHashHeader": "user"}})");
  EXPECT_EQ(Call(*stub), absl::OkStatus());
  const std::string owner = peer_;
  for (size_t i = 0; i < addresses_.size(); ++i) {
    if (addresses_[i] == owner) actors_[i].Do(Actor::Hang);
  }
  EXPECT_EQ(Call(*stub), absl::OkStatus());
  EXPECT_NE(peer_, owner);
}

TEST_F(HedgingTest, AFailureThatIsNoneOfTheServiceBringsTheNextAtOnce) {
  const auto stub = NewStub("3600s");
  actors_[0].Do([](auto*, auto*) { return absl::UnavailableError("a"); });
  actors_[1].Do([](auto*, auto*) { return absl::UnavailableError("b"); });
  for (int i = 0; i < 9; ++i) {
    EXPECT_EQ(Call(*stub), absl::OkStatus());
    EXPECT_EQ(peer_, addresses_[2]);
  }
}

TEST_F(HedgingTest, TheLastFailureIsThatOfTheCall) {
  const auto stub = NewStub("0.001s");
  const int before = attempts();
  AllDo([](auto*, auto*) { return absl::UnavailableError("not today"); });
  const absl::Status status = Call(*stub);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("not today"));
  EXPECT_EQ(attempts(), before + 3);
}

TEST_F(HedgingTest, AServerMayForbidFurtherAttempts) {
  const auto stub = NewStub("0.02s");
  for (Actor& actor : actors_) actor.Forget();
  AllDo([](ServerContext* context, auto*) {
    context->AddTrailingMetadata("grpc-retry-pushback-ms", "-1");
    return absl::UnavailableError("leave me alone");
  });
  const absl::Status status = Call(*stub);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("leave me alone"));
  EXPECT_EQ(attempts(), 1);
}

TEST_F(HedgingTest, TheLastFailureHasItsMetadata) {
  const auto stub = NewStub("3600s");
  AllDo([](ServerContext* context, auto*) {
    context->AddTrailingMetadata("why", "because");
    return absl::UnavailableError(std::string(3000, 'x'));
  });
  const absl::Status status = Call(*stub);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_GE(status.message().size(), 3000);
  EXPECT_EQ(trailing_, 1);
}

TEST_F(HedgingTest, ACallWithoutAnAnswerHasNoMetadata) {
  const auto stub = NewStub("3600s");
  AllDo([](ServerContext* context, auto* reply) {
    context->AddTrailingMetadata("why", "because");
    return context->client_metadata().contains("grpc-previous-rpc-attempts")
               ? Actor::Hang(context, reply)
               : absl::UnavailableError("not today");
  });
  EXPECT_EQ(Call(*stub, absl::Milliseconds(100)).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(trailing_, 0);
}

TEST_F(HedgingTest, CancellationsAndAnswersMayMeet) {
  const auto stub = NewStub("0.0002s");
  constexpr int kCalls = 200;
  for (int i = 0; i < kCalls; ++i) {
    EchoCall call;
    call.Start(stub.get());
    for (int turn = 0; turn < i; ++turn) std::this_thread::yield();
    call.context.TryCancel();
    call.done.Wait();
    EXPECT_TRUE(call.status.ok() || absl::IsCancelled(call.status))
        << call.status;
  }
}

TEST_F(HedgingTest, AnErrorOfTheServiceEndsTheCall) {
  const auto stub = NewStub("0.01s");
  actors_[0].Do(Actor::Hang);
  actors_[1].Do(Actor::Hang);
  actors_[2].Do([](ServerContext* context, auto*) {
    context->AddTrailingMetadata("why", "because");
    return absl::NotFoundError("no such order");
  });
  const absl::Status status = Call(*stub);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("no such order"));
  EXPECT_EQ(trailing_, 1);
}

TEST_F(HedgingTest, ACancellationEndsAllAttempts) {
  const auto stub = NewStub("0.001s");
  for (Actor& actor : actors_) actor.Forget();
  AllDo(Actor::Hang);
  EchoCall call;
  call.Start(stub.get());
  while (attempts() < 3) std::this_thread::yield();
  call.context.TryCancel();
  call.done.Wait();
  EXPECT_EQ(call.status.code(), absl::StatusCode::kCancelled);
  std::vector<std::string> previous;
  for (Actor& actor : actors_) {
    actor.AwaitCancelled(1);
    previous.push_back(actor.previous().at(0));
  }
  EXPECT_THAT(previous, UnorderedElementsAre("", "1", "2"));
}

TEST_F(HedgingTest, AServerThatIsGoneIsReplacedByTheNext) {
  const auto stub = NewStub("3600s");
  servers_[1]->Shutdown(absl::InfiniteFuture());
  servers_[1].reset();
  for (int i = 0; i < 9; ++i) EXPECT_EQ(Call(*stub), absl::OkStatus());
}

TEST_F(HedgingTest, ManyCallsAtOnceEndOnceEach) {
  const auto stub = NewStub("0.0005s");
  // Only first attempts hang, so that no call meets this server three times.
  actors_[0].Do([](ServerContext* context, EchoReply* reply) {
    return context->client_metadata().contains("grpc-previous-rpc-attempts")
               ? absl::OkStatus()
               : Actor::Hang(context, reply);
  });
  constexpr int kCalls = 60;
  std::vector<std::unique_ptr<EchoCall>> calls;
  for (int i = 0; i < kCalls; ++i) {
    calls.push_back(std::make_unique<EchoCall>());
    calls.back()->request.set_payload(Pattern(i * 100, i));
    calls.back()->Start(stub.get());
  }
  for (const auto& call : calls) {
    call->done.Wait();
    EXPECT_EQ(call->status, absl::OkStatus());
    EXPECT_EQ(call->reply.payload(), call->request.payload());
  }
}

}  // namespace
}  // namespace verbena::end_to_end
