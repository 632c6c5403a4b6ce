// Tests that the memory of large calls goes back to the system.

#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"

namespace verbena::end_to_end {
namespace {

uint64_t ResidentBytes() {
  uint64_t pages = 0;
  uint64_t resident = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  EXPECT_EQ(std::fscanf(file, "%lu %lu", &pages, &resident), 2);
  std::fclose(file);
  return resident * 4096;
}

// The most that ever was.
uint64_t PeakBytes() {
  rusage usage = {};
  EXPECT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  return uint64_t(usage.ru_maxrss) * 1024;
}

using IdleMemoryTest = EndToEndTest;

// Client and server both, and without anybody who polls.
TEST_F(IdleMemoryTest, GoesBackAfterEightLargeCallsAtOnce) {
  constexpr size_t kBytes = 60'000'000;
  StartServer([](ServerBuilder& builder) {
    builder.SetMemoryIdleTime(absl::Milliseconds(100));
  });
  ChannelOptions options;
  options.memory_idle_time = absl::Milliseconds(100);
  const auto stub = EndToEnd::NewStub(NewChannel(options));
  EXPECT_EQ(EchoProblem(*stub, 100, 1), "");
  const uint64_t before = ResidentBytes();
  {
    std::deque<AsyncEcho> echoes;
    Countdown countdown(8);
    for (size_t i = 0; i < 8; ++i) {
      echoes.emplace_back(stub.get(), kBytes, i).Start([&countdown] {
        countdown.Done();
      });
    }
    countdown.Wait();
    for (const AsyncEcho& echo : echoes) EXPECT_EQ(echo.problem(), "");
  }
  const uint64_t peak = PeakBytes();
  EXPECT_GT(peak, before + 8 * kBytes);
  // A tenth of what one of the calls needs, for the heap and the stacks of the
  // workers.
  const uint64_t goal = before + kBytes / 10;
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (ResidentBytes() > goal && absl::Now() < deadline) {
  }
  std::printf("resident MB: %.1f before, %.1f at most, %.1f after\n",
              double(before) / 1e6, double(peak) / 1e6,
              double(ResidentBytes()) / 1e6);
  EXPECT_LE(ResidentBytes(), goal);
  EXPECT_EQ(EchoProblem(*stub, kBytes, 1), "");
}

}  // namespace
}  // namespace verbena::end_to_end
