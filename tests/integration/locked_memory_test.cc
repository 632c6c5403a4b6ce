// Tests of a client or a server that may lock too little memory (`ulimit -l`),
// on the device of VERBENA_DEVICE. The status names the limit, and calls
// succeed when it is raised. The software device locks no memory, so its calls
// succeed with a limit of zero.

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"
#include "tests/testing/child_process.h"
#include "tests/testing/test_device.h"
#include "transport/base/check.h"
#include "transport/device.h"

namespace verbena::end_to_end {
namespace {

using ::testing::HasSubstr;
using testing_support::ChildProcess;
using testing_support::TestListenAddress;
using testing_support::TestProvider;
using testing_support::WordAfter;

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;

// Number of steps after which there is room enough for anything here.
constexpr int kSteps = 50;

// Gives up CAP_IPC_LOCK, for this process and those that it starts, because the
// limit does not bind processes that have it.
void GiveUpPrivilege() {
  // Fails in a process without privileges, which has nothing to give up.
  prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0);
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[2] = {};
  CHECK_EQ(syscall(SYS_capget, &header, sets), 0);
  const uint32_t bit = CAP_TO_MASK(CAP_IPC_LOCK);
  sets[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &= ~bit;
  sets[CAP_TO_INDEX(CAP_IPC_LOCK)].permitted &= ~bit;
  CHECK_EQ(syscall(SYS_capset, &header, sets), 0);
}

bool DeviceLocksMemory() {
  return TestProvider().name != std::string(transport::kSoftDevice);
}

// Returns how many bytes `process` has locked for devices.
uint64_t LockedBytes(pid_t process) {
  std::ifstream lines(absl::StrCat("/proc/", process, "/status"));
  uint64_t kib = 0;
  for (std::string line; std::getline(lines, line);) {
    absl::string_view rest = line;
    if (!absl::ConsumePrefix(&rest, "VmPin:")) continue;
    EXPECT_TRUE(absl::ConsumeSuffix(&rest, " kB")) << line;
    EXPECT_TRUE(absl::SimpleAtoi(rest, &kib)) << line;
    return kib * kKiB;
  }
  ADD_FAILURE() << "the kernel does not tell";
  return 0;
}

// Limits the locked memory of `process` to `room` bytes more, while it lives.
class LockedLimit {
 public:
  LockedLimit(pid_t process, uint64_t room) : process_(process) {
    EXPECT_EQ(prlimit(process, RLIMIT_MEMLOCK, nullptr, &usual_), 0);
    rlimit limit = usual_;
    limit.rlim_cur = LockedBytes(process) + room;
    EXPECT_EQ(prlimit(process, RLIMIT_MEMLOCK, &limit, nullptr), 0);
  }
  ~LockedLimit() {
    EXPECT_EQ(prlimit(process_, RLIMIT_MEMLOCK, &usual_, nullptr), 0);
  }

 private:
  const pid_t process_;
  rlimit usual_ = {};
};

absl::Status Echo(EndToEnd::Stub& stub, size_t bytes, size_t reply_bytes = 1) {
  ClientContext context;
  context.set_timeout(absl::Seconds(60));
  EchoRequest request;
  EchoReply reply;
  request.set_payload(Pattern(bytes, 1));
  request.set_reply_bytes(reply_bytes);
  return stub.Echo(&context, request, &reply);
}

std::unique_ptr<EndToEnd::Stub> StubTo(const std::string& target) {
  ChannelOptions options;
  options.max_backoff = absl::Milliseconds(50);
  return EndToEnd::NewStub(CreateChannel(target, options));
}

// Makes calls until one succeeds. Fails the test if none does in a minute.
void EchoUntilItWorks(EndToEnd::Stub& stub) {
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  absl::Status status;
  do {
    status = Echo(stub, 64);
  } while (!status.ok() && absl::Now() < deadline);
  EXPECT_EQ(status, absl::OkStatus());
}

// Calls `run` with ever more room for `process`, until it succeeds. Each
// earlier status must name the limit. On a device that locks no memory the
// first call must succeed; on others it must not.
void RunUntilThereIsRoom(pid_t process, uint64_t step,
                         absl::FunctionRef<absl::Status()> run) {
  for (int i = 0; i < kSteps; ++i) {
    absl::Status status;
    {
      const LockedLimit limit(process, step * static_cast<uint64_t>(i));
      status = run();
    }
    if (status.ok()) {
      EXPECT_EQ(i > 0, DeviceLocksMemory());
      return;
    }
    EXPECT_THAT(status.ToString(), HasSubstr("`ulimit -l`"));
  }
  ADD_FAILURE() << "never enough";
}

// A new client each time; in the end those connect too that were refused.
void ConnectUntilThereIsRoom(pid_t process, const std::string& target) {
  std::vector<std::unique_ptr<EndToEnd::Stub>> stubs;
  RunUntilThereIsRoom(process, 256 * kKiB, [&] {
    stubs.push_back(StubTo(target));
    return Echo(*stubs.back(), 64);
  });
  for (const auto& stub : stubs) EchoUntilItWorks(*stub);
}

class LockedMemoryTest : public testing::Test {
 protected:
  LockedMemoryTest()
      : server_({EndToEndServerPath(), "--listen=" + TestListenAddress()}),
        target_(WordAfter("listening on ", server_.ReadLine())),
        stub_(StubTo(target_)) {
    EXPECT_EQ(Echo(*stub_, 64), absl::OkStatus());
  }

  ChildProcess server_;
  const std::string target_;
  const std::unique_ptr<EndToEnd::Stub> stub_;
};

TEST_F(LockedMemoryTest, AClientThatMayNotLockItDoesNotConnect) {
  ConnectUntilThereIsRoom(getpid(), target_);
}

// The server starts without registered memory. It registers some for its first
// client only.
TEST_F(LockedMemoryTest, AServerThatMayNotLockItTellsWhoConnects) {
  ChildProcess server(
      {EndToEndServerPath(), "--listen=" + TestListenAddress()});
  ConnectUntilThereIsRoom(server.pid(),
                          WordAfter("listening on ", server.ReadLine()));
}

TEST_F(LockedMemoryTest, AClientThatLacksItForLargeRequestsSaysSo) {
  RunUntilThereIsRoom(getpid(), 4 * kMiB, [&] {
    EXPECT_EQ(Echo(*stub_, 64), absl::OkStatus());
    return Echo(*stub_, 10 * kMiB);
  });
}

TEST_F(LockedMemoryTest, AClientThatLacksItForLargeRepliesSaysSo) {
  RunUntilThereIsRoom(getpid(), 4 * kMiB, [&] {
    EXPECT_EQ(Echo(*stub_, 64), absl::OkStatus());
    return Echo(*stub_, 1, 10 * kMiB);
  });
}

TEST_F(LockedMemoryTest, AServerThatLacksItForLargeRequestsSaysSo) {
  RunUntilThereIsRoom(server_.pid(), 4 * kMiB, [&] {
    EXPECT_EQ(Echo(*stub_, 64), absl::OkStatus());
    return Echo(*stub_, 10 * kMiB);
  });
}

TEST_F(LockedMemoryTest, AServerThatLacksItForLargeRepliesSaysSo) {
  RunUntilThereIsRoom(server_.pid(), 4 * kMiB, [&] {
    EXPECT_EQ(Echo(*stub_, 64), absl::OkStatus());
    return Echo(*stub_, 1, 10 * kMiB);
  });
}

// The server keeps its clients, and takes others when there is room.
TEST_F(LockedMemoryTest, AServerAtItsLimitTellsWhoComesThen) {
  std::vector<std::unique_ptr<EndToEnd::Stub>> stubs;
  {
    const LockedLimit none(server_.pid(), 0);
    absl::Status status;
    while (status.ok() && stubs.size() < 40) {
      stubs.push_back(StubTo(target_));
      status = Echo(*stubs.back(), 64);
    }
    if (DeviceLocksMemory()) {
      EXPECT_THAT(status.ToString(), HasSubstr("`ulimit -l`"));
    } else {
      EXPECT_EQ(status, absl::OkStatus());
    }
    EXPECT_EQ(Echo(*stub_, 64), absl::OkStatus());
  }
  for (const auto& stub : stubs) EchoUntilItWorks(*stub);
}

// Replies that take a send buffer, of which there are no more then: those that
// have fallen silent must not keep them all.
TEST_F(LockedMemoryTest, AServerAtItsLimitServesAllThatItHas) {
  std::vector<std::unique_ptr<EndToEnd::Stub>> stubs;
  for (int i = 0; i < 4; ++i) {
    stubs.push_back(StubTo(target_));
    EXPECT_EQ(Echo(*stubs.back(), 64), absl::OkStatus());
  }
  const LockedLimit none(server_.pid(), 0);
  for (const auto& stub : stubs) {
    for (int i = 0; i < 10; ++i) {
      ASSERT_EQ(Echo(*stub, 1, 1 * kKiB), absl::OkStatus());
    }
  }
}

}  // namespace
}  // namespace verbena::end_to_end

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  verbena::end_to_end::GiveUpPrivilege();
  return RUN_ALL_TESTS();
}
