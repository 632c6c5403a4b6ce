// How calls end when they don't end well, and what travels beside the messages.

#include "absl/status/status.h"

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "google/protobuf/wrappers.pb.h"
#include "gtest/gtest.h"
#include "rpc/metrics.h"
#include "rpc/support/stub_support.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"
#include "tests/testing/child_process.h"

namespace verbena::end_to_end {
namespace {

using ::testing::HasSubstr;

class StatusTest : public EndToEndTest {
 protected:
  void Connect(const ChannelOptions& options = ChannelOptions()) {
    if (target().empty()) UseServer();
    channel_ = NewChannel(options);
    stub_ = EndToEnd::NewStub(channel_);
  }

  absl::Status Fail(int code, const std::string& message) {
    ClientContext context;
    FailRequest request;
    Nothing reply;
    request.set_code(code);
    request.set_message(message);
    return stub_->Fail(&context, request, &reply);
  }

  absl::Status Echo(size_t bytes, size_t reply_bytes = 0) {
    ClientContext context;
    EchoRequest request;
    EchoReply reply;
    request.set_payload(Pattern(bytes, 1));
    request.set_reply_bytes(reply_bytes);
    return stub_->Echo(&context, request, &reply);
  }

  // Waits for the end of the Block of `key`, and returns its outcome at the
  // server. Returns "" if it does not end within `timeout`.
  std::string AwaitOutcome(const std::string& key,
                           absl::Duration timeout = absl::Minutes(2)) {
    ClientContext context;
    context.set_timeout(timeout);
    Key request;
    Outcome reply;
    request.set_key(key);
    const absl::Status status = stub_->AwaitOutcome(&context, request, &reply);
    return status.ok() ? reply.outcome() : "";
  }

  // Makes Block calls with longer and longer deadlines, which they exceed,
  // until one has reached the handler in time. Returns what became of it there.
  std::string ExceedDeadlines(
      const std::function<absl::Status(ClientContext*, const std::string&)>&
          block) {
    for (absl::Duration timeout = absl::Milliseconds(100);; timeout *= 2) {
      const std::string key = NewKey();
      ClientContext context;
      context.set_timeout(timeout);
      const absl::Status status = block(&context, key);
      EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("EndToEnd/Block"));
      EXPECT_GE(absl::Now(), context.deadline());
      std::string outcome = AwaitOutcome(key, 10 * timeout);
      if (!outcome.empty() || HasFailure()) return outcome;
    }
  }

  void AwaitBlocked(const std::string& key) {
    ClientContext context;
    Key request;
    Nothing reply;
    request.set_key(key);
    EXPECT_EQ(stub_->AwaitBlocked(&context, request, &reply), absl::OkStatus());
  }

  // Different in every run, because an external server remembers.
  static std::string NewKey() {
    return absl::StrCat(absl::ToUnixNanos(absl::Now()));
  }

  std::shared_ptr<Channel> channel_;
  std::unique_ptr<EndToEnd::Stub> stub_;
};

void ExpectStatus(const absl::Status& status, absl::StatusCode code,
                  const std::string& words) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(words));
}

// Expects that the status names the method and the option.
void ExpectTooLarge(const absl::Status& status, const std::string& option) {
  ExpectStatus(status, absl::StatusCode::kResourceExhausted, option);
  EXPECT_THAT(std::string(status.message()), HasSubstr("EndToEnd/Echo"));
}

TEST_F(StatusTest, TheHandlersCodeAndMessageArriveUnchanged) {
  Connect();
  for (int code = 1; code <= 16; ++code) {
    const std::string message = absl::StrCat("it failed with ", code);
    EXPECT_EQ(Fail(code, message),
              absl::Status(static_cast<absl::StatusCode>(code), message));
  }
  EXPECT_EQ(Fail(0, "not an error"), absl::OkStatus());
  EXPECT_EQ(Fail(5, ""), absl::NotFoundError(""));
}

TEST_F(StatusTest, AMethodThatTheServiceDoesNotOverrideIsUnimplemented) {
  Connect();
  ClientContext context;
  Nothing reply;
  EXPECT_EQ(stub_->NotImplemented(&context, Nothing(), &reply).code(),
            absl::StatusCode::kUnimplemented);
}

TEST_F(StatusTest, AnUnknownServiceIsUnimplementedAndNamed) {
  Connect();
  ClientContext context;
  EchoReply reply;
  const auto stub = Unregistered::NewStub(channel_);
  const absl::Status status = stub->Echo(&context, EchoRequest(), &reply);
  ExpectStatus(status, absl::StatusCode::kUnimplemented,
               "verbena.end_to_end.Unregistered/Echo");
  ExpectStatus(status, absl::StatusCode::kUnimplemented, target());
}

TEST_F(StatusTest, AnUnknownMethodOfAKnownServiceIsUnimplementedAndNamed) {
  Connect();
  ClientContext context;
  EchoReply reply;
  const MethodDescriptor method("verbena.end_to_end.EndToEnd/NoSuchMethod");
  ExpectStatus(
      BlockingUnaryCall(*channel_, method, &context, EchoRequest(), &reply),
      absl::StatusCode::kUnimplemented,
      "verbena.end_to_end.EndToEnd/NoSuchMethod");
}

TEST_F(StatusTest, ARequestThatCannotBeParsedIsAnInternalError) {
  Connect();
  ClientContext context;
  Nothing reply;
  google::protobuf::BytesValue request;  // Where the server expects text.
  request.set_value("\xff\xff");
  const MethodDescriptor method("verbena.end_to_end.EndToEnd/Release");
  ExpectStatus(BlockingUnaryCall(*channel_, method, &context, request, &reply),
               absl::StatusCode::kInternal, "verbena.end_to_end.Key");
}

TEST_F(StatusTest, AReplyThatCannotBeParsedIsAnInternalError) {
  Connect();
  ClientContext context;
  EchoRequest request;
  Key reply;  // Text, where the server sends bytes.
  request.set_payload("\xff\xff");
  const MethodDescriptor method("verbena.end_to_end.EndToEnd/Echo");
  ExpectStatus(BlockingUnaryCall(*channel_, method, &context, request, &reply),
               absl::StatusCode::kInternal, "verbena.end_to_end.Key");
}

TEST_F(StatusTest, TheDeadlineEndsACallWhoseHandlerWaits) {
  Connect();
  EXPECT_EQ(
      ExceedDeadlines([this](ClientContext* context, const std::string& key) {
        return CallBlock(stub_.get(), context, key);
      }),
      "cancelled");
}

TEST_F(StatusTest, TheDeadlineEndsAnAsynchronousCallToo) {
  Connect();
  EXPECT_EQ(
      ExceedDeadlines([this](ClientContext* context, const std::string& key) {
        Key request;
        request.set_key(key);
        Nothing reply;
        absl::Status status;
        Countdown countdown(1);
        stub_->async()->Block(context, &request, &reply,
                              [&](absl::Status ended) {
                                status = std::move(ended);
                                countdown.Done();
                              });
        countdown.Wait();
        return status;
      }),
      "cancelled");
}

TEST_F(StatusTest, ADeadlineInThePastEndsTheCallAtOnce) {
  Connect();
  ClientContext context;
  context.set_deadline(absl::Now() - absl::Seconds(1));
  ExpectStatus(CallBlock(stub_.get(), &context, NewKey()),
               absl::StatusCode::kDeadlineExceeded, "EndToEnd/Block");
}

TEST_F(StatusTest, TheServerLearnsHowMuchTimeIsLeft) {
  Connect();
  ClientContext context;
  Description reply;
  ASSERT_EQ(stub_->Describe(&context, Nothing(), &reply), absl::OkStatus());
  EXPECT_EQ(reply.remaining_us(), -1);
  context.set_timeout(absl::Minutes(10));
  ASSERT_EQ(stub_->Describe(&context, Nothing(), &reply), absl::OkStatus());
  EXPECT_LE(reply.remaining_us(), 600'000'000);
  EXPECT_GE(reply.remaining_us(), 500'000'000);
}

TEST_F(StatusTest, AnotherThreadCancelsABlockingCall) {
  Connect();
  const std::string key = NewKey();
  ClientContext context;
  std::thread canceller([&] {
    AwaitBlocked(key);
    context.TryCancel();
  });
  ExpectStatus(CallBlock(stub_.get(), &context, key),
               absl::StatusCode::kCancelled, "EndToEnd/Block");
  canceller.join();
  EXPECT_EQ(AwaitOutcome(key), "cancelled");
}

TEST_F(StatusTest, AnAsynchronousCallIsCancelled) {
  Connect();
  const std::string key = NewKey();
  ClientContext context;
  Key request;
  request.set_key(key);
  Nothing reply;
  absl::Status status;
  Countdown countdown(1);
  stub_->async()->Block(&context, &request, &reply, [&](absl::Status ended) {
    status = std::move(ended);
    countdown.Done();
  });
  AwaitBlocked(key);
  context.TryCancel();
  countdown.Wait();
  ExpectStatus(status, absl::StatusCode::kCancelled, "EndToEnd/Block");
  EXPECT_EQ(AwaitOutcome(key), "cancelled");
}

TEST_F(StatusTest, CancellingBeforeTheCallEndsItAtOnce) {
  Connect();
  ClientContext context;
  context.TryCancel();
  ExpectStatus(CallBlock(stub_.get(), &context, NewKey()),
               absl::StatusCode::kCancelled, "EndToEnd/Block");
}

TEST_F(StatusTest, CancellingAtAnyMomentIsSafe) {
  Connect();
  for (size_t i = 0; i < 200; ++i) {
    ClientContext context;
    std::thread canceller([&context] { context.TryCancel(); });
    EchoReply reply;
    EchoRequest request;
    request.set_payload(std::string(i * 100, 'x'));
    const absl::Status status = stub_->Echo(&context, request, &reply);
    canceller.join();
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
  }
  EXPECT_EQ(Echo(100), absl::OkStatus());
}

TEST_F(StatusTest, ARequestLongerThanTheClientSendsIsRefused) {
  ChannelOptions options;
  options.max_send_message_bytes = 1000;
  Connect(options);
  EXPECT_EQ(Echo(900), absl::OkStatus());
  ExpectTooLarge(Echo(1000), "max_send_message_bytes, 1000");
}

TEST_F(StatusTest, ARequestLongerThanTheServerReceivesIsRefused) {
  StartServer(
      [](ServerBuilder& builder) { builder.SetMaxReceiveMessageSize(100000); });
  Connect();
  EXPECT_EQ(Echo(99000), absl::OkStatus());
  ExpectTooLarge(Echo(100000), "(SetMaxReceiveMessageSize there), 100000");
  EXPECT_EQ(Echo(10), absl::OkStatus());
}

TEST_F(StatusTest, AReplyLongerThanTheClientReceivesIsRefused) {
  ChannelOptions options;
  options.max_receive_message_bytes = 100000;
  Connect(options);
  EXPECT_EQ(Echo(0, 99000), absl::OkStatus());
  ExpectTooLarge(Echo(0, 100000),
                 "the client's max_receive_message_bytes, 100000");
  EXPECT_EQ(Echo(10), absl::OkStatus());
}

TEST_F(StatusTest, AReplyLongerThanTheServerSendsIsRefused) {
  StartServer(
      [](ServerBuilder& builder) { builder.SetMaxSendMessageSize(1000); });
  Connect();
  EXPECT_EQ(Echo(0, 900), absl::OkStatus());
  ExpectTooLarge(Echo(0, 1000), "(SetMaxSendMessageSize), 1000");
}

TEST_F(StatusTest, MetadataTravelBothWays) {
  Connect();
  ClientContext context;
  context.AddMetadata("trace", "one");
  context.AddMetadata("trace", "two");
  context.AddMetadata("binary", std::string("\0\xff", 2));
  Description reply;
  ASSERT_EQ(stub_->Describe(&context, Nothing(), &reply), absl::OkStatus());
  EXPECT_EQ(reply.metadata_size(), 3);
  EXPECT_EQ(context.GetServerTrailingMetadata(), context.metadata());
}

TEST_F(StatusTest, MetadataTravelWithErrors) {
  Connect();
  ClientContext context;
  FailRequest request;
  Nothing reply;
  request.set_code(5);
  EXPECT_EQ(stub_->Fail(&context, request, &reply), absl::NotFoundError(""));
  EXPECT_EQ(context.GetServerTrailingMetadata(), (Metadata{{"failed", "yes"}}));
}

TEST_F(StatusTest, ACallWithoutACallbackIsNotMade) {
  Connect();
  ClientContext context;
  EchoRequest request;
  EchoReply reply;
  request.set_payload("unheard");
  stub_->async()->Echo(&context, &request, &reply, nullptr);
  // The context is free.
  EXPECT_EQ(stub_->Echo(&context, request, &reply), absl::OkStatus());
}

TEST_F(StatusTest, OneContextServesOneCallAtATime) {
  Connect();
  const std::string key = NewKey();
  ClientContext context;
  std::thread second([&] {
    AwaitBlocked(key);
    ExpectStatus(CallBlock(stub_.get(), &context, key),
                 absl::StatusCode::kFailedPrecondition, "ClientContext");
    context.TryCancel();
  });
  EXPECT_EQ(CallBlock(stub_.get(), &context, key).code(),
            absl::StatusCode::kCancelled);
  second.join();
}

TEST_F(StatusTest, ATargetThatMakesNoSenseIsTheCallersFault) {
  Connect();
  for (const char* target : {"", "nonsense", "1.2.3.4", "1.2.3.4:port", ":"}) {
    const auto stub = EndToEnd::NewStub(CreateChannel(target));
    ClientContext context;
    EXPECT_EQ(CallBlock(stub.get(), &context, "key").code(),
              absl::StatusCode::kInvalidArgument)
        << target;
  }
}

TEST_F(StatusTest, OptionsThatMakeNoSenseAreTheCallersFault) {
  ChannelOptions options;
  options.connect_timeout = -absl::Seconds(1);
  Connect(options);
  ExpectStatus(Echo(1), absl::StatusCode::kInvalidArgument, "connect_timeout");
  EXPECT_FALSE(channel_->WaitForConnected(absl::InfiniteFuture()));

  // An asynchronous call ends with the same error. Its callback is called
  // though the channel has no poller.
  ClientContext context;
  EchoRequest request;
  EchoReply reply;
  absl::Status status;
  Countdown countdown(1);
  stub_->async()->Echo(&context, &request, &reply, [&](absl::Status ended) {
    status = std::move(ended);
    countdown.Done();
  });
  countdown.Wait();
  ExpectStatus(status, absl::StatusCode::kInvalidArgument, "connect_timeout");
}

TEST_F(StatusTest, ADeviceThatIsNotThereIsNamedByBothSides) {
  ChannelOptions options;
  options.device = "mlx99";
  Connect(options);
  ExpectStatus(Echo(1), absl::StatusCode::kFailedPrecondition, "\"mlx99\"");
  EXPECT_FALSE(channel_->WaitForConnected(absl::InfiniteFuture()));
  ExpectStatus(ServerBuilder()
                   .AddListeningPort(Address(0))
                   .RegisterService(&service())
                   .SetDevice("mlx99")
                   .BuildAndStart()
                   .status(),
               absl::StatusCode::kFailedPrecondition, "\"mlx99\"");
  testing_support::ChildProcess server({"/usr/bin/env", "VERBENA_DEVICE=mlx99",
                                        EndToEndServerPath(),
                                        "--listen=" + Address(0)});
  EXPECT_GT(server.Wait(), 0);
  EXPECT_THAT(server.errors(), HasSubstr("FAILED_PRECONDITION"));
  EXPECT_THAT(server.errors(), HasSubstr("\"mlx99\""));
}

TEST_F(StatusTest, BothSidesKnowEachOtherAndTheDevice) {
  Connect();
  ClientContext context;
  Description reply;
  ASSERT_EQ(stub_->Describe(&context, Nothing(), &reply), absl::OkStatus());
  EXPECT_EQ(context.peer(), target());
  EXPECT_THAT(reply.peer(), HasSubstr(":"));
  EXPECT_EQ(channel_->state(), ChannelState::kReady);
  EXPECT_NE(channel_->device(), "");
  if (const char* wanted = std::getenv("VERBENA_DEVICE")) {
    EXPECT_EQ(channel_->device(), wanted);
    EXPECT_EQ(reply.device(), wanted);
  }
  const ChannelMetrics metrics = channel_->GetMetrics();
  EXPECT_EQ(metrics.device, channel_->device());
  EXPECT_EQ(metrics.fabric == "rdma", metrics.device != "soft");
  EXPECT_NE(metrics.fabric_reason, "");
  EXPECT_LE(metrics.fabric_since, absl::Now());
  EXPECT_GT(metrics.fabric_since, absl::Now() - absl::Hours(1));
}

}  // namespace
}  // namespace verbena::end_to_end
