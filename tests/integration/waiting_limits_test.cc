// Calls that wait for a limit until their time is over: somebody hears which.

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/metrics.h"
#include "rpc/rpc.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"
#include "tests/testing/test_device.h"
#include "transport/base/clock.h"

namespace verbena::end_to_end {
namespace {

using testing::HasSubstr;

using WaitingLimitsTest = EndToEndTest;

TEST_F(WaitingLimitsTest, ACallThatNeverLeftSaysWhichLimitKeptIt) {
  StartServer();
  ChannelOptions options;
  options.max_concurrent_calls = 1;
  const std::shared_ptr<Channel> channel = NewChannel(options);
  const auto stub = EndToEnd::NewStub(channel);
  const std::unique_ptr<Blocked> first = Block(stub.get(), "first");
  service().AwaitBlocked("first");
  const std::unique_ptr<Blocked> second =
      Block(stub.get(), "second", absl::Milliseconds(100));
  second->thread.join();
  EXPECT_EQ(second->status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(second->status.message()),
              HasSubstr("before it was sent: all 1 calls"));
  EXPECT_THAT(std::string(second->status.message()),
              HasSubstr("ChannelOptions::max_concurrent_calls"));
  service().Release("first");
  first->thread.join();
  EXPECT_EQ(first->status, absl::OkStatus());
}

TEST_F(WaitingLimitsTest, CallsTakeAnotherConnectionWhereOneIsFull) {
  StartServer();
  ChannelOptions options;
  options.max_concurrent_calls = 1;
  options.max_connections_per_address = 2;
  const std::shared_ptr<Channel> channel = NewChannel(options);
  const auto stub = EndToEnd::NewStub(channel);
  const std::unique_ptr<Blocked> first = Block(stub.get(), "first");
  while (channel->GetMetrics().paths < 2) std::this_thread::yield();
  const std::unique_ptr<Blocked> second = Block(stub.get(), "second");
  service().AwaitBlocked("first");
  service().AwaitBlocked("second");
  service().Release("first");
  service().Release("second");
  for (const auto* each : {&first, &second}) {
    (*each)->thread.join();
    EXPECT_EQ((*each)->status, absl::OkStatus());
  }
}

// Waits until `calls` have come to the server and have not ended there.
bool AwaitOpen(const Server& server, uint64_t calls) {
  const absl::Time deadline = base::Now() + testing_support::kTestTimeout;
  uint64_t open = 0;
  while (open != calls && base::Now() < deadline) {
    std::this_thread::yield();
    open = 0;
    for (const MethodMetrics& method : server.GetMetrics().methods) {
      open += method.open();
    }
  }
  return open == calls;
}

TEST_F(WaitingLimitsTest, TheServerCountsCallsThatNoWorkerServedInTime) {
  StartServer([](ServerBuilder& builder) {
    builder.SetWorkerThreads(1).SetMaxWorkerThreads(1);
  });
  const auto stub = EndToEnd::NewStub(NewChannel());
  const std::unique_ptr<Blocked> first = Block(stub.get(), "first");
  service().AwaitBlocked("first");
  const std::unique_ptr<Blocked> second = Block(stub.get(), "second");
  ASSERT_TRUE(AwaitOpen(server(), 2));
  second->context.TryCancel();
  second->thread.join();
  EXPECT_EQ(second->status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(server().GetMetrics().unserved_calls, 0u);
  // The server has seen the CANCEL of the second call when the third has come.
  const std::unique_ptr<Blocked> third = Block(stub.get(), "third");
  ASSERT_TRUE(AwaitOpen(server(), 3));
  service().Release("first");
  service().Release("third");
  for (const auto* each : {&first, &third}) {
    (*each)->thread.join();
    EXPECT_EQ((*each)->status, absl::OkStatus());
  }
  const absl::Time deadline = base::Now() + testing_support::kTestTimeout;
  while (server().GetMetrics().unserved_calls == 0 && base::Now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(server().GetMetrics().unserved_calls, 1u);
}

}  // namespace
}  // namespace verbena::end_to_end
