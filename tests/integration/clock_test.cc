// The clock on the wall is set while calls are open.

#include "absl/time/clock.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"

namespace {

// Seconds by which the wall clock of this process is wrong.
std::atomic<time_t> clock_error_s{0};

}  // namespace

// Replaces the C library's clock_gettime() in the whole program.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long result = ::syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += clock_error_s;
  return static_cast<int>(result);
}

namespace verbena::end_to_end {
namespace {

class ClockTest : public EndToEndTest {
 protected:
  ClockTest() {
    StartServer();
    stub_ = EndToEnd::NewStub(NewChannel());
    EXPECT_EQ(EchoProblem(*stub_, 10, 1), "");
  }
  ~ClockTest() override { clock_error_s = 0; }

  // Sets the clock, and makes calls until everybody sees that: abseil looks at
  // it once in two seconds.
  void Step(absl::Duration by) {
    const absl::Time before = absl::Now();
    const auto start = std::chrono::steady_clock::now();
    clock_error_s += absl::ToInt64Seconds(by);
    while (absl::AbsDuration(absl::Now() - before) < absl::Minutes(50)) {
      ASSERT_LT(std::chrono::steady_clock::now() - start,
                std::chrono::minutes(1));
      EXPECT_EQ(EchoProblem(*stub_, 10, 1), "");
    }
    for (int i = 0; i < 1000; ++i) {
      ClientContext context;
      context.set_timeout(absl::Minutes(2));
      Nothing request;
      Description reply;
      ASSERT_EQ(stub_->Describe(&context, request, &reply), absl::OkStatus());
      // The handler computes the remaining time by the new clock.
      const absl::Duration remaining = absl::Microseconds(reply.remaining_us());
      EXPECT_GT(remaining, absl::Minutes(1));
      EXPECT_LT(remaining, absl::Minutes(3));
    }
  }

  std::unique_ptr<EndToEnd::Stub> stub_;
};

TEST_F(ClockTest, AStepForwardEndsNoCall) {
  const auto blocked = Block(stub_.get(), "key", absl::Minutes(2));
  service().AwaitBlocked("key");
  Step(absl::Hours(1));
  service().Release("key");
  blocked->thread.join();
  EXPECT_EQ(blocked->status, absl::OkStatus());
}

TEST_F(ClockTest, AStepBackKeepsNoCallOpen) {
  const auto blocked = Block(stub_.get(), "key", absl::Seconds(5));
  service().AwaitBlocked("key");
  Step(-absl::Hours(1));
  blocked->thread.join();
  EXPECT_EQ(blocked->status.code(), absl::StatusCode::kDeadlineExceeded)
      << blocked->status;
}

}  // namespace
}  // namespace verbena::end_to_end
