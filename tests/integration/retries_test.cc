// Calls that fail are tried again as the service config has it.

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"
#include "tests/testing/child_process.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"

namespace verbena::end_to_end {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Ends its calls with the statuses of a list, and after those well.
class Flaky final : public EndToEnd::Service {
 public:
  absl::Status Echo(ServerContext* context, const EchoRequest* request,
                    EchoReply* reply) override {
    const base::MutexLock lock(mutex_);
    const auto previous =
        context->client_metadata().find("grpc-previous-rpc-attempts");
    previous_.push_back(
        previous == context->client_metadata().end() ? "" : previous->second);
    attachments_.emplace_back(context->request_attachment().begin(),
                              context->request_attachment().end());
    called_.NotifyAll();
    if (sends_initial_metadata_) context->AddInitialMetadata("it", "begins");
    for (const std::string& pushback : pushbacks_) {
      context->AddTrailingMetadata("grpc-retry-pushback-ms", pushback);
    }
    if (hangs_ > 0) {
      --hangs_;
      while (!context->IsCancelled()) {
        called_.WaitUntil(mutex_, base::Now() + absl::Milliseconds(1));
      }
      return absl::CancelledError("nobody waits");
    }
    if (statuses_.empty()) {
      reply->set_payload(request->payload());
      return absl::OkStatus();
    }
    const absl::Status status = statuses_.front();
    statuses_.pop_front();
    return status;
  }

  void FailWith(std::deque<absl::Status> statuses) {
    const base::MutexLock lock(mutex_);
    statuses_ = std::move(statuses);
    previous_.clear();
  }
  void SendInitialMetadata() {
    const base::MutexLock lock(mutex_);
    sends_initial_metadata_ = true;
  }
  void PushBack(std::vector<std::string> pushbacks) {
    const base::MutexLock lock(mutex_);
    pushbacks_ = std::move(pushbacks);
  }
  // From now on `hangs` calls have no answer.
  void Hang(int hangs) {
    const base::MutexLock lock(mutex_);
    hangs_ = hangs;
  }
  // The attachment of each attempt.
  std::vector<std::string> attachments() {
    const base::MutexLock lock(mutex_);
    return attachments_;
  }
  void AwaitCall() {
    const base::MutexLock lock(mutex_);
    while (previous_.empty()) called_.Wait(mutex_);
  }
  // The number of attempts before, as each attempt had it.
  std::vector<std::string> previous() {
    const base::MutexLock lock(mutex_);
    return previous_;
  }

 private:
  base::Mutex mutex_;
  base::CondVar called_;
  std::deque<absl::Status> statuses_ ABSL_GUARDED_BY(mutex_);
  bool sends_initial_metadata_ ABSL_GUARDED_BY(mutex_) = false;
  int hangs_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> pushbacks_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> previous_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> attachments_ ABSL_GUARDED_BY(mutex_);
};

absl::Status Unavailable() { return absl::UnavailableError("not today"); }

class RetriesTest : public ::testing::Test {
 protected:
  RetriesTest() { Start(); }

  void Start() {
    ServerBuilder builder;
    builder.AddListeningPort(
        absl::StrCat(testing_support::TestAddress(), ":", port_), &port_);
    builder.RegisterService(&service_);
    auto server = builder.BuildAndStart();
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  // A stub whose calls have a policy of four attempts, with `pause` before the
  // second, `fields` in the config beside, and `more` in the policy.
  std::unique_ptr<EndToEnd::Stub> NewStub(const std::string& pause = "0.001s",
                                          const std::string& fields = "",
                                          const std::string& more = "") {
    ChannelOptions options;
    options.service_config = absl::StrCat(
        R"({"methodConfig": [{"name": [{"service":
            "verbena.end_to_end.EndToEnd"}], "retryPolicy": {
            "maxAttempts": 4, "initialBackoff": ")",
        pause, R"(", "maxBackoff": ")", pause, R"(", "backoffMultiplier": 2, )",
        more, more.empty() ? "" : ",", R"(
            "retryableStatusCodes": ["UNAVAILABLE", "ABORTED",
                                     "DEADLINE_EXCEEDED"]}}])",
        fields, "}");
    options.initial_backoff = absl::Milliseconds(10);
    return EndToEnd::NewStub(CreateChannel(
        absl::StrCat(testing_support::TestAddress(), ":", port_), options));
  }
  static absl::Status Call(EndToEnd::Stub& stub,
                           absl::Duration timeout = absl::Minutes(1)) {
    ClientContext context;
    context.set_timeout(timeout);
    EchoRequest request;
    request.set_payload("hello");
    EchoReply reply;
    const absl::Status status = stub.Echo(&context, request, &reply);
    EXPECT_EQ(reply.payload(), status.ok() ? "hello" : "");
    EXPECT_THAT(context.metadata(), IsEmpty());
    return status;
  }

  Flaky service_;
  std::unique_ptr<Server> server_;
  int port_ = 0;
};

TEST_F(RetriesTest, ACallIsTriedAgainUntilItEndsWell) {
  const auto stub = NewStub();
  service_.FailWith({Unavailable(), absl::AbortedError("x"), Unavailable()});
  EXPECT_EQ(Call(*stub), absl::OkStatus());
  EXPECT_THAT(service_.previous(), ElementsAre("", "1", "2", "3"));
}

TEST_F(RetriesTest, TheLastAttemptsStatusIsThatOfTheCall) {
  const auto stub = NewStub();
  service_.FailWith({Unavailable(), Unavailable(), Unavailable(),
                     absl::AbortedError("the last"), Unavailable()});
  const absl::Status status = Call(*stub);
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(status.message(), HasSubstr("the last"));
  EXPECT_THAT(service_.previous(), SizeIs(4));
}

TEST_F(RetriesTest, OtherStatusesEndTheCall) {
  const auto stub = NewStub();
  service_.FailWith({Unavailable(), absl::InternalError("x"), Unavailable()});
  EXPECT_EQ(Call(*stub).code(), absl::StatusCode::kInternal);
  EXPECT_THAT(service_.previous(), SizeIs(2));
}

TEST_F(RetriesTest, AnAsynchronousCallIsTriedAgainToo) {
  const auto stub = NewStub();
  service_.FailWith({Unavailable(), Unavailable()});
  EchoCall call;
  call.Start(stub.get());
  call.done.Wait();
  EXPECT_EQ(call.status, absl::OkStatus());
  EXPECT_THAT(service_.previous(), ElementsAre("", "1", "2"));
}

TEST_F(RetriesTest, AnAttemptThatHasNoAnswerInItsTimeIsGivenUp) {
  const auto stub =
      NewStub("0.001s", "", R"("perAttemptRecvTimeout": "0.02s")");
  service_.Hang(2);
  EXPECT_EQ(Call(*stub), absl::OkStatus());
  EXPECT_THAT(service_.previous(), ElementsAre("", "1", "2"));
}

TEST_F(RetriesTest, TheLastAttemptHasTheTimeOfTheCall) {
  const auto stub =
      NewStub("0.001s", "", R"("perAttemptRecvTimeout": "0.02s")");
  service_.Hang(4);
  const absl::Status status = Call(*stub, absl::Seconds(2));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(service_.previous(), SizeIs(4));
}

TEST_F(RetriesTest, AnAttemptThatIsAnsweredInItsTimeStays) {
  const auto stub =
      NewStub("0.001s", "", R"("perAttemptRecvTimeout": "3600s")");
  service_.FailWith({Unavailable()});
  EXPECT_EQ(Call(*stub), absl::OkStatus());
  EXPECT_THAT(service_.previous(), ElementsAre("", "1"));
}

TEST_F(RetriesTest, AttachmentsGoWithEachAttempt) {
  const auto stub = NewStub();
  service_.FailWith({Unavailable()});
  const std::string sent = Pattern(1 << 20, 3);
  ClientContext context;
  context.set_request_attachment(absl::MakeConstSpan(
      reinterpret_cast<const uint8_t*>(sent.data()), sent.size()));
  EchoRequest request;
  EchoReply reply;
  EXPECT_EQ(stub->Echo(&context, request, &reply), absl::OkStatus());
  EXPECT_EQ(service_.attachments(), std::vector<std::string>({sent, sent}));
}

TEST_F(RetriesTest, TheDeadlineIsThatOfAllAttempts) {
  const auto stub = NewStub("3600s");
  EXPECT_EQ(Call(*stub), absl::OkStatus());
  service_.FailWith({Unavailable()});
  const absl::Status status = Call(*stub, absl::Seconds(1));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(service_.previous(), SizeIs(1));
}

TEST_F(RetriesTest, ACallCanBeCancelledBetweenAttempts) {
  const auto stub = NewStub("3600s");
  service_.FailWith({Unavailable()});
  ClientContext context;
  absl::Status status;
  std::thread thread([&] {
    EchoRequest request;
    EchoReply reply;
    status = stub->Echo(&context, request, &reply);
  });
  service_.AwaitCall();
  context.TryCancel();
  thread.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
}

TEST_F(RetriesTest, AChannelThatEndsEndsThePauses) {
  auto stub = NewStub("3600s");
  service_.FailWith({Unavailable()});
  EchoCall call;
  call.Start(stub.get());
  service_.AwaitCall();
  stub.reset();
  call.done.Wait();
  EXPECT_EQ(call.status.code(), absl::StatusCode::kCancelled);
}

TEST_F(RetriesTest, AServerMayForbidFurtherAttempts) {
  const auto stub = NewStub();
  for (const char* never : {"-1", "soon"}) {
    service_.PushBack({never});
    service_.FailWith({Unavailable()});
    EXPECT_EQ(Call(*stub).code(), absl::StatusCode::kUnavailable) << never;
    EXPECT_THAT(service_.previous(), SizeIs(1)) << never;
  }
}

TEST_F(RetriesTest, AServerThatSendsInitialMetadataHasTheCall) {
  const auto stub = NewStub();
  service_.SendInitialMetadata();
  service_.FailWith({Unavailable(), Unavailable()});
  EXPECT_EQ(Call(*stub).code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(service_.previous(), SizeIs(1));
}

TEST_F(RetriesTest, AServerMaySayWhenToComeBack) {
  const auto stub = NewStub("3600s");
  service_.PushBack({"1"});
  service_.FailWith({Unavailable(), Unavailable()});
  EXPECT_EQ(Call(*stub), absl::OkStatus());
  EXPECT_THAT(service_.previous(), SizeIs(3));
}

TEST_F(RetriesTest, TheLastWordOfAServerCounts) {
  const auto stub = NewStub();
  service_.PushBack({"1", "-1"});
  service_.FailWith({Unavailable()});
  EXPECT_EQ(Call(*stub).code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(service_.previous(), SizeIs(1));
  service_.PushBack({"-1", "1"});
  service_.FailWith({Unavailable()});
  EXPECT_EQ(Call(*stub), absl::OkStatus());
}

TEST_F(RetriesTest, ADeadlineThatPassesTakesNoToken) {
  const auto stub = NewStub(
      "0.001s", R"(, "retryThrottling": {"maxTokens": 4, "tokenRatio": 1})");
  service_.Hang(1);
  EXPECT_EQ(Call(*stub, absl::Milliseconds(50)).code(),
            absl::StatusCode::kDeadlineExceeded);
  service_.Hang(0);
  // Three tokens of four are left. Two would not be more than half.
  service_.FailWith({absl::DeadlineExceededError("of another server")});
  EXPECT_EQ(Call(*stub), absl::OkStatus());
  EXPECT_THAT(service_.previous(), SizeIs(2));
}

TEST_F(RetriesTest, ManyFailuresStopTheRetries) {
  const auto stub = NewStub(
      "0.001s", R"(, "retryThrottling": {"maxTokens": 4, "tokenRatio": 1})");
  // The third attempt leaves two tokens, which are not more than half.
  const std::deque<absl::Status> many(8, Unavailable());
  service_.FailWith(many);
  EXPECT_EQ(Call(*stub).code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(service_.previous(), SizeIs(2));
  service_.FailWith(many);
  EXPECT_EQ(Call(*stub).code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(service_.previous(), SizeIs(1));
  service_.FailWith({});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Call(*stub), absl::OkStatus());
  service_.FailWith({Unavailable()});
  EXPECT_EQ(Call(*stub), absl::OkStatus());
}

TEST_F(RetriesTest, ACallWaitsOutAServerThatIsAway) {
  const auto stub = NewStub("1s");
  EXPECT_EQ(Call(*stub), absl::OkStatus());
  server_.reset();
  absl::Status status;
  std::thread thread([&] { status = Call(*stub); });
  Start();
  thread.join();
  EXPECT_EQ(status, absl::OkStatus());
}

TEST_F(RetriesTest, TheConfigBoundsTimeAndSizes) {
  ChannelOptions options;
  const auto call = [&](const char* fields, size_t bytes) {
    options.service_config =
        absl::StrCat(R"({"methodConfig": [{"name": [{}], )", fields, "}]}");
    const auto stub = EndToEnd::NewStub(CreateChannel(
        absl::StrCat(testing_support::TestAddress(), ":", port_), options));
    ClientContext context;
    EchoRequest request;
    request.set_payload(std::string(bytes, 'x'));
    EchoReply reply;
    return stub->Echo(&context, request, &reply);
  };
  EXPECT_EQ(call(R"("maxRequestMessageBytes": 100)", 50), absl::OkStatus());
  EXPECT_THAT(call(R"("maxRequestMessageBytes": 100)", 200).message(),
              HasSubstr("maxRequestMessageBytes of the service config, 100"));
  EXPECT_THAT(call(R"("maxResponseMessageBytes": 100)", 200).message(),
              HasSubstr("maxResponseMessageBytes of the service config, 100"));
  server_.reset();
  const absl::Status late =
      call(R"("timeout": "0.05s", "waitForReady": true)", 1);
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded) << late;
  EXPECT_EQ(call(R"("timeout": "60s", "waitForReady": false)", 1).code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace verbena::end_to_end
