// How the software device leaves a process that ends.

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "transport/soft/device/soft_device.h"

namespace verbena::soft {
namespace {

constexpr int kThreadsLeft = 7;

// Before the device had one; 0 in a process that does not count them. The
// sanitizers have some of their own.
long threads_before = 0;

long Threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

// Starts a thread, because ThreadSanitizer starts one of its own with the
// first, and waits until the kernel lists it no more.
void HaveHadAThread() {
  pid_t id = 0;
  std::thread([&id] { id = gettid(); }).join();
  const std::string listed = "/proc/self/task/" + std::to_string(id);
  while (std::filesystem::exists(listed)) std::this_thread::yield();
}

// Called after those without a priority. The kernel lists a thread that was
// joined for a moment more.
[[gnu::destructor(101)]] void CountThreads() {
  if (threads_before == 0) return;
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (Threads() != threads_before) {
    if (std::chrono::steady_clock::now() > deadline) _exit(kThreadsLeft);
    std::this_thread::yield();
  }
}

// Tools that look for leaks take what belongs to a thread for one.
TEST(ExitTest, LeavesNoThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        HaveHadAThread();
        threads_before = Threads();
        SoftDevice::Get().engine().Start();
        std::exit(Threads() == threads_before + 1 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace verbena::soft
