// Calls that wait for a limit until their time is over: somebody hears which.

#include <memory>
#include <string>

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

TEST_F(WaitingLimitsTest, TheServerCountsCallsThatNoWorkerServedInTime) {
  StartServer([](ServerBuilder& builder) {
    builder.SetWorkerThreads(1).SetMaxWorkerThreads(1);
  });
  const auto stub = EndToEnd::NewStub(NewChannel());
  const std::unique_ptr<Blocked> first = Block(stub.get(), "first");
  service().AwaitBlocked("first");
  const std::unique_ptr<Blocked> second =
      Block(stub.get(), "second", absl::Milliseconds(100));
  second->thread.join();
  EXPECT_EQ(second->status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(server().GetMetrics().unserved_calls, 0u);
  service().Release("first");
  first->thread.join();
  EXPECT_EQ(first->status, absl::OkStatus());
  const absl::Time deadline = base::Now() + testing_support::kTestTimeout;
  while (server().GetMetrics().unserved_calls == 0 && base::Now() < deadline) {
  }
  EXPECT_EQ(server().GetMetrics().unserved_calls, 1u);
}

}  // namespace
}  // namespace verbena::end_to_end
