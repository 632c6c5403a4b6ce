// Tests of clients and servers without descriptors or threads. The status names
// the limit, and calls succeed when there is room. Each test runs in a process
// of its own.

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"
#include "tests/testing/child_process.h"

namespace verbena::end_to_end {
namespace {

using testing_support::ChildProcess;
using testing_support::WordAfter;

// More descriptors than a server, a channel and their devices need.
constexpr int kPlenty = 200;

// Limits this process to `room` more open descriptors, while it lives.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(int room) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &usual_), 0);
    const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    EXPECT_GE(next, 0);
    close(next);
    rlimit limit = usual_;
    limit.rlim_cur = static_cast<rlim_t>(next) + static_cast<rlim_t>(room);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  ~DescriptorLimit() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &usual_), 0); }

 private:
  rlimit usual_ = {};
};

// While it lives the system starts no thread: no process has room for such a
// stack. (A limit on threads does not bind root.)
class NoThreads {
 public:
  NoThreads() {
    pthread_attr_t absurd;
    EXPECT_EQ(pthread_getattr_default_np(&usual_), 0);
    EXPECT_EQ(pthread_attr_init(&absurd), 0);
    EXPECT_EQ(pthread_attr_setstacksize(&absurd, size_t{1} << 50), 0);
    EXPECT_EQ(pthread_setattr_default_np(&absurd), 0);
    pthread_attr_destroy(&absurd);
  }
  ~NoThreads() {
    EXPECT_EQ(pthread_setattr_default_np(&usual_), 0);
    pthread_attr_destroy(&usual_);
  }

 private:
  pthread_attr_t usual_;
};

absl::Status Echo(Channel& channel) {
  const auto stub = EndToEnd::NewStub(
      std::shared_ptr<Channel>(std::shared_ptr<Channel>(), &channel));
  ClientContext context;
  context.set_timeout(absl::Seconds(60));
  EchoRequest request;
  EchoReply reply;
  request.set_payload("hello");
  return stub->Echo(&context, request, &reply);
}

std::shared_ptr<Channel> ChannelTo(const std::string& target) {
  ChannelOptions options;
  options.device = "soft";
  options.max_backoff = absl::Milliseconds(50);
  return CreateChannel(target, options);
}

// Makes calls until one succeeds. Fails the test if none does in a minute.
void EchoUntilItWorks(Channel& channel) {
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  absl::Status status;
  do {
    status = Echo(channel);
  } while (!status.ok() && absl::Now() < deadline);
  EXPECT_EQ(status, absl::OkStatus());
}

absl::StatusOr<std::unique_ptr<Server>> Serve(EndToEndService* service,
                                              int* port) {
  return ServerBuilder()
      .AddListeningPort("127.0.0.1:0", port)
      .RegisterService(service)
      .SetDevice("soft")
      .BuildAndStart();
}

void ExpectWorks(int port) {
  EchoUntilItWorks(*ChannelTo("127.0.0.1:" + std::to_string(port)));
}

void ServeWithoutDescriptors() {
  EndToEndService service;
  int port = 0;
  for (int room = 0; room < kPlenty; ++room) {
    absl::StatusOr<std::unique_ptr<Server>> server = absl::UnknownError("");
    {
      const DescriptorLimit limit(room);
      server = Serve(&service, &port);
    }
    if (server.ok()) return ExpectWorks(port);
    EXPECT_TRUE(absl::IsResourceExhausted(server.status())) << server.status();
    EXPECT_THAT(server.status().ToString(), testing::HasSubstr("`ulimit -n`"));
  }
  ADD_FAILURE() << "never started";
}

void ServeWithoutThreads() {
  EndToEndService service;
  int port = 0;
  {
    const NoThreads none;
    const absl::Status status = Serve(&service, &port).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(status.ToString(), testing::HasSubstr("`ulimit -u`"));
  }
  const absl::StatusOr<std::unique_ptr<Server>> server = Serve(&service, &port);
  ASSERT_EQ(server.status(), absl::OkStatus());
  ExpectWorks(port);
}

// A server that may have so many descriptors.
std::vector<std::string> ServerWith(int descriptors) {
  return {"/bin/sh", "-c",
          "ulimit -n " + std::to_string(descriptors) +
              "; VERBENA_DEVICE=soft exec \"$0\" --listen=127.0.0.1:0",
          EndToEndServerPath()};
}

void CallWithoutDescriptors() {
  ChildProcess server(ServerWith(1000));
  const std::string target = WordAfter("listening on ", server.ReadLine());
  for (int room = 0; room < kPlenty; ++room) {
    const std::shared_ptr<Channel> channel = ChannelTo(target);
    absl::Status status;
    {
      const DescriptorLimit limit(room);
      status = Echo(*channel);
    }
    EchoUntilItWorks(*channel);
    if (status.ok()) return;
    EXPECT_THAT(status.ToString(), testing::HasSubstr("`ulimit -n`"));
  }
  ADD_FAILURE() << "never connected";
}

void CallWithoutThreads() {
  ChildProcess server(ServerWith(1000));
  const std::string target = WordAfter("listening on ", server.ReadLine());
  const std::shared_ptr<Channel> channel = ChannelTo(target);
  {
    const NoThreads none;
    EXPECT_FALSE(channel->WaitForConnected(absl::Now() + absl::Minutes(1)));
    const absl::Status status = Echo(*channel);
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(status.ToString(), testing::HasSubstr("`ulimit -u`"));
  }
  EXPECT_EQ(Echo(*channel), absl::OkStatus());
}

// Clients come until the server has no descriptor for the next.
void CallAServerWithoutDescriptors() {
  ChildProcess server(ServerWith(64));
  const std::string target = WordAfter("listening on ", server.ReadLine());
  std::vector<std::shared_ptr<Channel>> channels;
  absl::Status status;
  while (status.ok() && channels.size() < 100) {
    channels.push_back(ChannelTo(target));
    status = Echo(*channels.back());
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(status.ToString(), testing::HasSubstr("`ulimit -n`"));
    status = Echo(*ChannelTo(target));
  }
  EXPECT_EQ(Echo(*channels.front()), absl::OkStatus());
  const std::shared_ptr<Channel> last = channels.back();
  channels.clear();
  EchoUntilItWorks(*last);
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_THAT(server.errors(), testing::HasSubstr("verbena: "));
  EXPECT_THAT(server.errors(), testing::HasSubstr("`ulimit -n`"));
}

// A status for the end of this process. What failed goes where the process that
// awaits it reads.
int Failures() {
  const testing::TestResult& result =
      *testing::UnitTest::GetInstance()->current_test_info()->result();
  int failures = 0;
  for (int i = 0; i < result.total_part_count(); ++i) {
    if (!result.GetTestPartResult(i).failed()) continue;
    ++failures;
    std::cerr << result.GetTestPartResult(i) << std::endl;
  }
  return std::min(failures, 1);
}

void ExpectPassesInItsOwnProcess(void (*body)()) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        body();
        _exit(Failures());
      },
      testing::ExitedWithCode(0), "");
}

TEST(ExhaustionTest, AServerWithoutDescriptorsDoesNotStart) {
  ExpectPassesInItsOwnProcess(ServeWithoutDescriptors);
}

TEST(ExhaustionTest, AServerWithoutThreadsDoesNotStart) {
  ExpectPassesInItsOwnProcess(ServeWithoutThreads);
}

TEST(ExhaustionTest, ACallWithoutDescriptorsSaysSo) {
  ExpectPassesInItsOwnProcess(CallWithoutDescriptors);
}

TEST(ExhaustionTest, ACallWithoutThreadsSaysSo) {
  ExpectPassesInItsOwnProcess(CallWithoutThreads);
}

TEST(ExhaustionTest, AServerAtItsLimitTellsItsClientsAndItsOwner) {
  ExpectPassesInItsOwnProcess(CallAServerWithoutDescriptors);
}

}  // namespace
}  // namespace verbena::end_to_end
