// How the software device leaves a process that ends.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "gtest/gtest.h"
#include "transport/soft/device/soft_device.h"

namespace verbena::soft {
namespace {

constexpr int kThreadsLeft = 7;

bool counts_threads = false;

long Threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

// Called after those without a priority.
[[gnu::destructor(101)]] void CountThreads() {
  if (counts_threads && Threads() != 1) _exit(kThreadsLeft);
}

// Tools that look for leaks take what belongs to a thread for one.
TEST(ExitTest, LeavesNoThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        SoftDevice::Get().engine().Start();
        counts_threads = Threads() == 2;
        std::exit(counts_threads ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace verbena::soft
