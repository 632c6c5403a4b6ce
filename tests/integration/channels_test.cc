// Many channels in a process, which share threads and descriptors.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "rpc/metrics.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"

namespace verbena::end_to_end {
namespace {

size_t EntriesOf(const std::string& directory) {
  const std::filesystem::directory_iterator all(directory);
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}
size_t Threads() { return EntriesOf("/proc/self/task"); }
size_t Descriptors() { return EntriesOf("/proc/self/fd"); }

class ChannelsTest : public EndToEndTest {
 protected:
  // A channel that is connected.
  std::unique_ptr<EndToEnd::Stub> Connected() const {
    const auto channel = NewChannel();
    EXPECT_TRUE(channel->WaitForConnected(absl::Now() + absl::Minutes(2)));
    return EndToEnd::NewStub(channel);
  }
};

TEST_F(ChannelsTest, ManyShareThreadsAndDescriptors) {
  StartServer();
  std::vector<std::unique_ptr<EndToEnd::Stub>> stubs;
  stubs.push_back(Connected());
  const size_t threads = Threads();
  const size_t descriptors = Descriptors();
  constexpr size_t kMore = 150;
  for (size_t i = 0; i < kMore; ++i) stubs.push_back(Connected());
  // Two a poller; of those there are at most 16, and one a processor.
  const size_t pollers =
      std::min<size_t>(std::thread::hardware_concurrency(), 16);
  EXPECT_LE(Threads(), threads + 2 * pollers);
  // The software device has a socket for each end. What pollers and queues
  // have is shared.
  EXPECT_LE(Descriptors(), descriptors + 2 * kMore + 20 * pollers + 40);
  for (size_t i = 0; i < stubs.size(); ++i) {
    ASSERT_EQ(EchoProblem(*stubs[i], 10 * i, i), "");
  }
}

TEST_F(ChannelsTest, TheLastOneTakesItsThreadsAlong) {
  StartServer();
  Connected().reset();
  const size_t threads = Threads();
  std::vector<std::unique_ptr<EndToEnd::Stub>> stubs;
  for (int i = 0; i < 10; ++i) stubs.push_back(Connected());
  EXPECT_GT(Threads(), threads);
  stubs.clear();
  // The system forgets a thread some time after it was joined.
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  while (Threads() > threads && absl::Now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_LE(Threads(), threads);
}

TEST_F(ChannelsTest, SomeComeWhileOthersGo) {
  StartServer();
  std::vector<std::thread> users;
  for (size_t user = 0; user < 6; ++user) {
    users.emplace_back([this, user] {
      ChannelOptions options;
      if (user % 2 == 0) options.spin_budget = absl::ZeroDuration();
      for (size_t i = 0; i < 20; ++i) {
        const auto stub = EndToEnd::NewStub(NewChannel(options));
        AsyncEcho echo(stub.get(), 10, i);
        Countdown countdown(1);
        echo.Start([&countdown] { countdown.Done(); });
        EXPECT_EQ(EchoProblem(*stub, 1000 * user, i), "");
        countdown.Wait();
        EXPECT_EQ(echo.problem(), "");
      }
    });
  }
  for (std::thread& user : users) user.join();
}

TEST_F(ChannelsTest, ManyCallsOnFewChannelsAllEnd) {
  UseServer();
  std::vector<std::unique_ptr<EndToEnd::Stub>> stubs;
  for (int i = 0; i < 3; ++i) stubs.push_back(Connected());
  std::vector<std::thread> users;
  for (size_t user = 0; user < 8; ++user) {
    users.emplace_back([&stubs, user] {
      for (size_t i = 0; i < 100; ++i) {
        EXPECT_EQ(EchoProblem(*stubs[(user + i) % stubs.size()], 10 * i, i),
                  "");
      }
    });
  }
  for (std::thread& user : users) user.join();
}

// The first channel has had its last call before the second one.
TEST_F(ChannelsTest, OneWithoutCallsBecomesIdle) {
  StartServer();
  ChannelOptions options;
  options.idle_timeout = absl::Milliseconds(20);
  const auto with_call = NewChannel(options);
  const auto without = NewChannel(options);
  const auto stub = EndToEnd::NewStub(with_call);
  ClientContext context;
  absl::Status blocked;
  std::thread thread(
      [&] { blocked = CallBlock(stub.get(), &context, "idle"); });
  service().AwaitBlocked("idle");
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(EchoProblem(*EndToEnd::NewStub(without), 10, i), "");
    while (without->state() != ChannelState::kIdle) std::this_thread::yield();
    EXPECT_EQ(with_call->state(), ChannelState::kReady);
  }
  service().Release("idle");
  thread.join();
  EXPECT_EQ(blocked, absl::OkStatus());
  while (with_call->state() != ChannelState::kIdle) std::this_thread::yield();
  const auto connected = [this] {
    const auto devices = server().GetMetrics().pollers.devices;
    return std::any_of(devices.begin(), devices.end(),
                       [](const auto& device) { return device.open > 0; });
  };
  while (connected()) std::this_thread::yield();
}

// While it is being found out where the target is, and whether it listens.
TEST_F(ChannelsTest, OneMayGoWhileItConnects) {
  StartServer();
  for (int i = 0; i < 20; ++i) {
    auto stub = EndToEnd::NewStub(NewChannel());
    ClientContext context;
    Key key;
    key.set_key("key");
    Nothing reply;
    absl::Status status;
    stub->async()->AwaitBlocked(
        &context, &key, &reply,
        [&status](absl::Status ended) { status = std::move(ended); });
    stub.reset();
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  }
  const auto stub = EndToEnd::NewStub(NewChannel());
  EXPECT_EQ(EchoProblem(*stub, 10, 1), "");
}

}  // namespace
}  // namespace verbena::end_to_end
