// Tests of the metrics that servers and channels count of real calls.

#include "rpc/metrics.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.verbena.h"
#include "transport/base/clock.h"

namespace verbena::end_to_end {
namespace {

constexpr char kEcho[] = "verbena.end_to_end.EndToEnd/Echo";
constexpr char kFail[] = "verbena.end_to_end.EndToEnd/Fail";
constexpr char kBlock[] = "verbena.end_to_end.EndToEnd/Block";
constexpr char kChat[] = "verbena.end_to_end.StreamService/Chat";

// The method of that name; an empty one if it was never called.
MethodMetrics MethodOf(const std::vector<MethodMetrics>& methods,
                       const std::string& name) {
  for (const MethodMetrics& method : methods) {
    if (method.name == name) return method;
  }
  return {};
}

uint64_t Ended(const MethodMetrics& method, absl::StatusCode code) {
  return method.ended[static_cast<size_t>(code)];
}

uint64_t Timed(const MethodMetrics& method) {
  return std::accumulate(method.latency.counts.begin(),
                         method.latency.counts.end(), uint64_t{0});
}

class MetricsTest : public EndToEndTest {
 protected:
  void Serve(const std::function<void(ServerBuilder&)>& change = {}) {
    StartServer(change);
    channel_ = NewChannel();
    stub_ = EndToEnd::NewStub(channel_);
  }

  absl::Status Fail(absl::StatusCode code) {
    ClientContext context;
    FailRequest request;
    Nothing reply;
    request.set_code(static_cast<int>(code));
    return stub_->Fail(&context, request, &reply);
  }

  MethodMetrics AtServer(const std::string& name) {
    return MethodOf(server().GetMetrics().methods, name);
  }
  MethodMetrics AtClient(const std::string& name) {
    return MethodOf(channel_->GetMetrics().methods, name);
  }

  // Waits until `condition` holds. Both sides count on threads of their own, so
  // a caller may look too early.
  static bool Becomes(const std::function<bool()>& condition) {
    const absl::Time deadline = base::Now() + absl::Minutes(2);
    while (!condition()) {
      if (base::Now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  std::shared_ptr<Channel> channel_;
  std::unique_ptr<EndToEnd::Stub> stub_;
};

TEST_F(MetricsTest, CallsAreCountedByMethodAndCodeOnBothSides) {
  Serve();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(EchoProblem(*stub_, 1000, 1), "");
  EXPECT_EQ(Fail(absl::StatusCode::kNotFound).code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(Fail(absl::StatusCode::kAborted).code(),
            absl::StatusCode::kAborted);
  EXPECT_TRUE(Becomes([this] { return AtServer(kFail).open() == 0; }));
  for (const MethodMetrics& echo : {AtServer(kEcho), AtClient(kEcho)}) {
    EXPECT_EQ(echo.started, 3);
    EXPECT_EQ(Ended(echo, absl::StatusCode::kOk), 3);
    EXPECT_EQ(echo.ended_in_all(), 3);
    EXPECT_EQ(Timed(echo), 3);
    EXPECT_GT(echo.latency.sum_seconds, 0);
    EXPECT_FALSE(echo.streams);
    // A field of 1,000 bytes has a tag and two bytes of length.
    EXPECT_EQ(echo.request_bytes, 3 * 1003);
    EXPECT_EQ(echo.response_bytes, 3 * 1003);
  }
  for (const MethodMetrics& fail : {AtServer(kFail), AtClient(kFail)}) {
    EXPECT_EQ(fail.started, 2);
    EXPECT_EQ(Ended(fail, absl::StatusCode::kNotFound), 1);
    EXPECT_EQ(Ended(fail, absl::StatusCode::kAborted), 1);
    EXPECT_EQ(fail.ended_in_all(), 2);
  }
}

TEST_F(MetricsTest, AMethodThatWasNeverCalledIsAmongTheServersOnly) {
  Serve();
  const ServerMetrics metrics = server().GetMetrics();
  EXPECT_EQ(MethodOf(metrics.methods, kChat).name, kChat);
  EXPECT_TRUE(MethodOf(metrics.methods, kChat).streams);
  EXPECT_TRUE(channel_->GetMetrics().methods.empty());
}

TEST_F(MetricsTest, BytesAreThoseOfMessagesAndAttachments) {
  Serve();
  ClientContext context;
  EchoRequest request;
  EchoReply reply;
  const std::vector<uint8_t> attachment(100000, 'a');
  context.set_request_attachment(attachment);
  ASSERT_EQ(stub_->Echo(&context, request, &reply), absl::OkStatus());
  EXPECT_TRUE(Becomes([this] { return AtServer(kEcho).open() == 0; }));
  for (const MethodMetrics& echo : {AtServer(kEcho), AtClient(kEcho)}) {
    EXPECT_EQ(echo.request_bytes, 100000);
    EXPECT_EQ(echo.response_bytes, 100000);
  }
}

TEST_F(MetricsTest, ACallIsOpenUntilItsHandlerHasEnded) {
  Serve();
  auto blocked = Block(stub_.get(), "key");
  service().AwaitBlocked("key");
  EXPECT_EQ(AtServer(kBlock).open(), 1);
  EXPECT_EQ(AtClient(kBlock).open(), 1);
  const ServerMetrics metrics = server().GetMetrics();
  EXPECT_GT(metrics.workers, metrics.idle_workers);
  service().Release("key");
  blocked->thread.join();
  EXPECT_EQ(AtClient(kBlock).open(), 0);
  EXPECT_TRUE(Becomes([this] { return AtServer(kBlock).open() == 0; }));
}

TEST_F(MetricsTest, MessagesOfAStreamAreCountedWhenItHasEnded) {
  Serve();
  const auto streams = StreamService::NewStub(channel_);
  ClientContext context;
  const auto stream = streams->Chat(&context);
  Item item;
  for (uint64_t i = 0; i < 5; ++i) {
    item.set_number(i + 1);
    ASSERT_TRUE(stream->Write(item));
    ASSERT_TRUE(stream->Read(&item));
  }
  EXPECT_EQ(AtServer(kChat).open(), 1);
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_FALSE(stream->Read(&item));
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
  EXPECT_TRUE(Becomes([this] { return AtServer(kChat).open() == 0; }));
  for (const MethodMetrics& chat : {AtServer(kChat), AtClient(kChat)}) {
    EXPECT_EQ(chat.stream_requests, 5);
    EXPECT_EQ(chat.stream_responses, 5);
    EXPECT_EQ(chat.request_bytes, 10);  // A tag and a small number each.
    EXPECT_EQ(chat.response_bytes, 10);
    EXPECT_EQ(Ended(chat, absl::StatusCode::kOk), 1);
  }
}

TEST_F(MetricsTest, ConnectionsAreThoseThatAreOpen) {
  Serve();
  const auto open = [this] {
    uint64_t sum = 0;
    for (const DeviceMetrics& device : server().GetMetrics().pollers.devices) {
      sum += device.open;
    }
    return sum;
  };
  EXPECT_EQ(open(), 0);
  ASSERT_EQ(EchoProblem(*stub_, 10, 1), "");
  EXPECT_EQ(open(), 1);
  EXPECT_TRUE(channel_->GetMetrics().connected);
  EXPECT_EQ(channel_->GetMetrics().device, channel_->device());
  EXPECT_EQ(channel_->GetMetrics().connects, 1);
  stub_.reset();
  channel_.reset();
  EXPECT_TRUE(Becomes([&open] { return open() == 0; }));
  const PollerMetrics pollers = server().GetMetrics().pollers;
  EXPECT_GT(pollers.polls, 0);
  uint64_t registered = 0;
  for (const DeviceMetrics& device : pollers.devices) {
    registered += device.frame_bytes;
  }
  EXPECT_GT(registered, 0);
}

TEST_F(MetricsTest, AServerThatCameBackMeansASecondConnection) {
  Serve();
  ASSERT_EQ(EchoProblem(*stub_, 10, 1), "");
  const int old_port = port();
  StopServer();
  StartServer({}, old_port);
  EXPECT_TRUE(Becomes([this] { return EchoProblem(*stub_, 10, 1).empty(); }));
  EXPECT_EQ(channel_->GetMetrics().connects, 2);
}

TEST_F(MetricsTest, CallsOfUnknownMethodsAreCountedTogether) {
  Serve();
  const auto unregistered = Unregistered::NewStub(channel_);
  ClientContext context;
  EchoReply reply;
  EXPECT_EQ(unregistered->Echo(&context, EchoRequest(), &reply).code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(server().GetMetrics().unknown_methods, 1);
}

TEST_F(MetricsTest, CallsBeyondALimitAreCountedAsRefused) {
  Serve([](ServerBuilder& builder) { builder.SetMaxConcurrentCalls(1); });
  auto blocked = Block(stub_.get(), "key");
  service().AwaitBlocked("key");
  for (int i = 0; i < 2; ++i) EXPECT_NE(EchoProblem(*stub_, 10, 1), "");
  EXPECT_EQ(server().GetMetrics().calls_over_limit, 2);
  EXPECT_EQ(Ended(AtClient(kEcho), absl::StatusCode::kResourceExhausted), 2);
  service().Release("key");
  blocked->thread.join();
}

}  // namespace
}  // namespace verbena::end_to_end
