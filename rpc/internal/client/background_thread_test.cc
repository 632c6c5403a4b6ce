#include "rpc/internal/client/background_thread.h"

#include <poll.h>
#include <sys/mman.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "rpc/internal/client/shared_poller.h"
#include "transport/base/gate.h"

namespace verbena::internal {
namespace {

constexpr size_t kPageBytes = 4096;

void* page = nullptr;
std::atomic<int> threads_held_up{0};

// Holds a thread up that reads the page, until another one reads it too, or for
// longer than it takes somebody to stand in.
void HoldUp(int /*signal*/) {
  threads_held_up.fetch_add(1);
  for (int i = 0; i < 200 && threads_held_up.load() < 2; ++i) {
    poll(nullptr, 0, 1);
  }
  mprotect(page, kPageBytes, PROT_READ | PROT_WRITE);
}

// Its thread is held up when it next looks at the page.
class ProtectingTask final : public transport::ShortTask {
 public:
  void Run() override { mprotect(page, kPageBytes, PROT_NONE); }
};

class CountedTask final : public transport::ShortTask {
 public:
  void Run() override { runs_.fetch_add(1); }
  int runs() const { return runs_.load(); }

 private:
  std::atomic<int> runs_{0};
};

class LastTask final : public transport::ShortTask {
 public:
  void Run() override { ran.Open(); }
  base::Gate ran;
};

// The thread takes all that a task posts at once afterwards.
class PostingTask final : public transport::ShortTask {
 public:
  PostingTask(SharedPoller* poller, std::vector<transport::ShortTask*> tasks)
      : poller_(poller), tasks_(std::move(tasks)) {}
  void Run() override {
    for (transport::ShortTask* task : tasks_) poller_->PostInBackground(task);
  }

 private:
  SharedPoller* const poller_;
  const std::vector<transport::ShortTask*> tasks_;
};

// The thread loses its processor while it looks what to do next.
TEST(BackgroundThreadTest, RunsATaskOnceThoughItIsHeldUpBeforeThat) {
  struct sigaction action = {};
  action.sa_handler = HoldUp;
  ASSERT_EQ(sigaction(SIGSEGV, &action, nullptr), 0);
  page = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto* const counted = new (page) CountedTask();
  ProtectingTask protecting;
  LastTask last;
  {
    absl::StatusOr<std::unique_ptr<SharedPoller>> poller =
        SharedPoller::Create(absl::ZeroDuration());
    ASSERT_TRUE(poller.ok()) << poller.status();
    PostingTask adding(poller->get(), {&protecting, counted, &last});
    (*poller)->PostInBackground(&adding);
    last.ran.Wait();
  }
  EXPECT_EQ(counted->runs(), 1);
  munmap(page, kPageBytes);
}

// Whenever that is: the thread may be about to look, or to sleep for minutes.
TEST(BackgroundThreadTest, EndsAtAnyMoment) {
  for (int i = 0; i < 4000; ++i) {
    auto poller = SharedPoller::Create(absl::ZeroDuration());
    ASSERT_EQ(poller.status(), absl::OkStatus());
    LastTask task;
    (*poller)->PostInBackground(&task);
    task.ran.Wait();
    for (std::atomic<int> spins = 0; spins < i % 400;) ++spins;
    poller->reset();
  }
}

}  // namespace
}  // namespace verbena::internal
