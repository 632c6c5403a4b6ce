#include "transport/soft/base/engine.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <future>
#include <thread>

namespace verbena::soft {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Waits, with a bound, until `condition` holds.
template <typename Condition>
bool Eventually(Condition condition) {
  const auto deadline = steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

class Event {
 public:
  Event() : fd_(eventfd(0, EFD_NONBLOCK)) {}
  ~Event() { close(fd_); }
  int fd() const { return fd_; }
  void Set() { EXPECT_EQ(eventfd_write(fd_, 1), 0); }
  void Clear() {
    eventfd_t value;
    eventfd_read(fd_, &value);
  }

 private:
  const int fd_;
};

TEST(EngineTest, CallsWhenADescriptorIsReadable) {
  Engine engine;
  Event event;
  std::atomic<int> calls{0};
  engine.Watch(event.fd(), [&] {
    event.Clear();
    ++calls;
  });
  event.Set();
  EXPECT_TRUE(Eventually([&] { return calls == 1; }));
  event.Set();
  EXPECT_TRUE(Eventually([&] { return calls == 2; }));
  engine.Unwatch(event.fd());
}

TEST(EngineTest, NoCallbackRunsAfterUnwatch) {
  Engine engine;
  for (int i = 0; i < 200; ++i) {
    Event event;
    std::atomic<bool> gone{false};
    std::atomic<bool> called_late{false};
    engine.Watch(event.fd(), [&] {
      if (gone) called_late = true;
    });
    event.Set();  // Stays readable: the callback runs over and over.
    if (i % 2 == 0) std::this_thread::yield();
    engine.Unwatch(event.fd());
    gone = true;
    EXPECT_FALSE(called_late);
  }
}

TEST(EngineTest, ACallbackMayUnwatchItselfAndWatchAgain) {
  Engine engine;
  Event event;
  std::atomic<int> calls{0};
  engine.Watch(event.fd(), [&] {
    engine.Unwatch(event.fd());
    engine.Watch(event.fd(), [&] {
      engine.Unwatch(event.fd());
      calls = 2;
    });
    calls = 1;
  });
  event.Set();
  EXPECT_TRUE(Eventually([&] { return calls == 2; }));
}

TEST(EngineTest, UnwatchingWhatIsNotWatchedDoesNothing) {
  Engine engine;
  engine.Unwatch(0);
}

TEST(EngineTest, PostedTasksRunInOrder) {
  Engine engine;
  std::vector<int> order;
  std::promise<void> done;
  for (int i = 0; i < 10; ++i) engine.Post([&, i] { order.push_back(i); });
  engine.Post([&] { done.set_value(); });
  done.get_future().wait();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(EngineTest, TimersRunNoSoonerThanAsked) {
  Engine engine;
  std::promise<steady_clock::time_point> late;
  std::promise<steady_clock::time_point> soon;
  const auto start = steady_clock::now();
  engine.StartTimer(milliseconds(20),
                    [&] { late.set_value(steady_clock::now()); });
  engine.StartTimer(milliseconds(5),
                    [&] { soon.set_value(steady_clock::now()); });
  EXPECT_GE(soon.get_future().get() - start, milliseconds(5));
  EXPECT_GE(late.get_future().get() - start, milliseconds(20));
}

TEST(EngineTest, ACancelledTimerNeverRuns) {
  Engine engine;
  std::atomic<bool> ran{false};
  engine.CancelTimer(engine.StartTimer(milliseconds(2), [&] { ran = true; }));
  std::promise<void> later;
  engine.StartTimer(milliseconds(10), [&] { later.set_value(); });
  later.get_future().wait();
  EXPECT_FALSE(ran);
}

TEST(EngineTest, CancellingATimerThatRunsWaitsForItsEnd) {
  Engine engine;
  std::atomic<bool> started{false};
  std::atomic<bool> ended{false};
  const Engine::TimerId id = engine.StartTimer(milliseconds(0), [&] {
    started = true;
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    ended = true;
  });
  ASSERT_TRUE(Eventually([&] { return started.load(); }));
  engine.CancelTimer(id);
  EXPECT_TRUE(ended);
}

class CountingMember final : public EngineMember {
 public:
  TimePoint OnTick(TimePoint now) override {
    // Taken first: a test that has seen the tick asks for further ones.
    const int left = wanted.fetch_sub(1);
    ++ticks;
    return left > 1 ? now + milliseconds(1) : TimePoint::max();
  }
  std::atomic<int> ticks{0};
  std::atomic<int> wanted{0};  // Ticks to ask for, one a millisecond.
};

TEST(EngineTest, MembersAreTickedWhenKickedAndWhenTheyAsk) {
  Engine engine;
  CountingMember member;
  engine.AddMember(&member);
  ASSERT_TRUE(Eventually([&] { return member.ticks == 1; }));
  member.wanted = 3;
  engine.Kick(&member);
  EXPECT_TRUE(Eventually([&] { return member.ticks == 4; }));
  engine.RemoveMember(&member);
  engine.Kick(&member);
  engine.KickAll();
  std::promise<void> done;
  engine.Post([&] { done.set_value(); });
  done.get_future().wait();
  EXPECT_EQ(member.ticks, 4);
}

TEST(EngineTest, AKickTicksOneMemberOrAll) {
  Engine engine;
  CountingMember kicked;
  CountingMember other;
  engine.AddMember(&kicked);
  engine.AddMember(&other);
  ASSERT_TRUE(
      Eventually([&] { return kicked.ticks == 1 && other.ticks == 1; }));
  engine.Kick(&kicked);
  ASSERT_TRUE(Eventually([&] { return kicked.ticks == 2; }));
  EXPECT_EQ(other.ticks, 1);
  engine.KickAll();
  EXPECT_TRUE(
      Eventually([&] { return kicked.ticks == 3 && other.ticks == 2; }));
  engine.RemoveMember(&kicked);
  engine.RemoveMember(&other);
}

TEST(EngineTest, AnIdleEngineUsesNoProcessor) {
  Engine engine;
  CountingMember member;
  Event event;
  engine.AddMember(&member);
  engine.Watch(event.fd(), [] {});
  ASSERT_TRUE(Eventually([&] { return member.ticks >= 1; }));
  const auto switches = [] {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
  };
  // The engine's thread blocks: only this one gives up the processor meanwhile.
  std::promise<void> never;
  const long before = switches();
  never.get_future().wait_for(milliseconds(100));
  EXPECT_LE(switches() - before, 10);
  engine.Unwatch(event.fd());
  engine.RemoveMember(&member);
}

// A descriptor that the kernel cannot watch, because it is of a regular file.
// The kernel also refuses when the user watches as many as it may.
class Unwatchable {
 public:
  Unwatchable() : fd_(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)) {}
  ~Unwatchable() { close(fd_); }
  int fd() const { return fd_; }
  // Makes the descriptor a duplicate of that of `event`.
  void Become(const Event& event) { EXPECT_EQ(dup2(event.fd(), fd_), fd_); }

 private:
  const int fd_;
};

TEST(EngineTest, SaysThatItCannotWatchADescriptor) {
  Engine engine;
  Event event;
  Unwatchable descriptor;
  std::atomic<int> calls{0};
  EXPECT_EQ(engine.Watch(descriptor.fd(), [&] { ++calls; }), EPERM);
  descriptor.Become(event);
  EXPECT_EQ(engine.Watch(descriptor.fd(),
                         [&] {
                           event.Clear();
                           ++calls;
                         }),
            0);
  event.Set();
  EXPECT_TRUE(Eventually([&] { return calls == 1; }));
  engine.Unwatch(descriptor.fd());
}

TEST(EngineTest, WatchesADescriptorAsSoonAsTheKernelDoes) {
  Engine engine;
  Event event;
  Unwatchable descriptor;
  std::atomic<int> calls{0};
  engine.WatchWhenPossible(descriptor.fd(), [&] {
    event.Clear();
    ++calls;
  });
  // An interest that is set before the kernel watches is not lost.
  engine.SetInterest(descriptor.fd(), false, false);
  engine.SetInterest(descriptor.fd(), true, false);
  event.Set();
  descriptor.Become(event);
  EXPECT_TRUE(Eventually([&] { return calls == 1; }));
  engine.Unwatch(descriptor.fd());
}

TEST(EngineTest, ForgetsADescriptorThatTheKernelNeverWatched) {
  Engine engine;
  Event event;
  Unwatchable descriptor;
  std::atomic<int> calls{0};
  engine.WatchWhenPossible(descriptor.fd(), [&] { ++calls; });
  engine.Unwatch(descriptor.fd());
  descriptor.Become(event);
  event.Set();
  std::atomic<bool> later{false};
  engine.StartTimer(milliseconds(50), [&] { later = true; });
  EXPECT_TRUE(Eventually([&] { return later.load(); }));
  EXPECT_EQ(calls, 0);
}

// While it lives this process can open no descriptor.
class NoDescriptors {
 public:
  NoDescriptors() {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &usual_), 0);
    rlimit none = usual_;
    none.rlim_cur = 0;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoDescriptors() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &usual_), 0); }

 private:
  rlimit usual_ = {};
};

TEST(EngineTest, StartsWhenThereAreDescriptors) {
  Engine engine;
  {
    const NoDescriptors none;
    EXPECT_EQ(engine.Start(), EMFILE);
    EXPECT_EQ(engine.Start(), EMFILE);
  }
  EXPECT_EQ(engine.Start(), 0);
  std::promise<void> ran;
  engine.Post([&ran] { ran.set_value(); });
  ran.get_future().wait();
}

}  // namespace
}  // namespace verbena::soft
