#include "transport/polling/poller.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "transport/base/clock.h"
#include "transport/base/unique_fd.h"
#include "transport/polling/posted_function.h"

namespace verbena::transport {
namespace {

using ::testing::ElementsAre;

// Far longer than anything here takes, far shorter than a test may.
constexpr absl::Duration kLong = absl::Seconds(20);

// A pollable whose every answer the test chooses.
class FakePollable : public Pollable {
 public:
  int Poll() override {
    ++polls_made;
    return std::exchange(ready, 0);
  }
  void Tick(absl::Time now) override {
    ++ticks;
    ticked_at = now;
  }
  void OnReadable() override {
    ++looks;
    uint64_t value = 0;
    if (empties) {
      EXPECT_GT(read(descriptor, &value, sizeof(value)), 0);
    }
  }
  absl::Status Arm() override {
    ++arms;
    ready += ready_when_armed;
    return arm_status;
  }
  int fd() const override { return descriptor; }
  absl::Time NextTick() const override { return next_tick; }

  bool polls() const override { return may_find; }

  bool may_find = true;
  int descriptor = -1;
  bool empties = true;  // Reads the descriptor when it is readable.
  int ready = 0;
  int ready_when_armed = 0;
  absl::Status arm_status;
  absl::Time next_tick = absl::InfiniteFuture();

  int polls_made = 0;
  int ticks = 0;
  int looks = 0;
  int arms = 0;
  absl::Time ticked_at;
};

class PollerTest : public testing::Test {
 protected:
  PollerTest() { poller_->Enter(); }
  ~PollerTest() override {
    if (added_) poller_->Remove(&pollable_);
    poller_->Leave();
  }

  void Add() {
    poller_->Add(&pollable_);
    added_ = true;
  }

  // How long a sleep takes.
  absl::Duration TimeSleep(absl::Time until) {
    const absl::Time start = base::Now();
    poller_->Sleep(until);
    return base::Now() - start;
  }

  std::unique_ptr<Poller> poller_ = *Poller::Create();
  FakePollable pollable_;
  bool added_ = false;
};

TEST_F(PollerTest, HandsWhatOneThreadDidToTheNext) {
  poller_->Leave();
  int shared = 0;  // Only the thread that has entered changes it.
  for (int i = 0; i < 4; ++i) {
    std::thread([this, &shared] {
      poller_->Enter();
      ++shared;
      poller_->Leave();
    }).join();
  }
  poller_->Enter();
  EXPECT_EQ(shared, 4);
}

// As when the user watches as many descriptors as it may.
TEST_F(PollerTest, LooksAtWhatTheKernelDoesNotWatchUntilItDoes) {
  const base::UniqueFd other(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  const base::UniqueFd file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  pollable_.descriptor = file.get();
  pollable_.empties = false;
  Add();
  for (int i = 1; i < 4; ++i) {
    EXPECT_LT(TimeSleep(base::Now() + kLong), kLong);
    EXPECT_GE(pollable_.looks, i);
  }
  ASSERT_EQ(dup2(other.get(), file.get()), file.get());
  poller_->Sleep(base::Now());
  pollable_.looks = 0;
  const absl::Duration little = absl::Milliseconds(100);
  EXPECT_GE(TimeSleep(base::Now() + little), little);
  EXPECT_EQ(pollable_.looks, 0);
  ASSERT_EQ(eventfd_write(other.get(), 1), 0);
  EXPECT_LT(TimeSleep(base::Now() + kLong), kLong);
  poller_->PollOnce();
  EXPECT_EQ(pollable_.looks, 1);
}

TEST_F(PollerTest, RunsWhatIsPostedInOrder) {
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) {
    PostFunction(*poller_, [&order, i] { order.push_back(i); });
  }
  EXPECT_EQ(poller_->PollOnce(), 3);
  EXPECT_THAT(order, ElementsAre(0, 1, 2));
  EXPECT_EQ(poller_->PollOnce(), 0);
}

TEST_F(PollerTest, RunsWhatATaskPosts) {
  bool ran = false;
  PostFunction(*poller_, [this, &ran] {
    PostFunction(*poller_, [&ran] { ran = true; });
  });
  while (!ran) ASSERT_GT(poller_->PollOnce(), 0);
}

TEST_F(PollerTest, CountsWhatItHandles) {
  Add();
  EXPECT_EQ(poller_->PollOnce(), 0);
  pollable_.ready = 5;
  EXPECT_EQ(poller_->PollOnce(), 5);
}

TEST_F(PollerTest, AsksNobodyWhoNeverFindsAnything) {
  pollable_.may_find = false;
  Add();
  poller_->PollOnce();
  EXPECT_EQ(pollable_.polls_made, 0);
  EXPECT_EQ(pollable_.ticks, 1);
}

TEST_F(PollerTest, TicksAboutOnceAMillisecond) {
  Add();
  const absl::Time start = base::Now();
  while (pollable_.ticks < 5) {
    poller_->PollOnce();
    ASSERT_LT(base::Now() - start, kLong);
  }
  // The first tick comes at once, by a clock that may be that much older.
  EXPECT_GE(base::Now() - start, absl::Milliseconds(4) - Poller::kNowAgeMax);
  EXPECT_GT(pollable_.polls_made, pollable_.ticks);
}

// Handlers that take their time must not keep deadlines from being seen.
TEST_F(PollerTest, TicksInTimeWhileEveryPollTakesLong) {
  Add();
  poller_->PollOnce();
  const int ticks = pollable_.ticks;
  for (int i = 0; i < 40; ++i) {
    pollable_.ready = 1;
    const absl::Time until = base::Now() + absl::Milliseconds(1);
    while (base::Now() < until) {
    }
    poller_->PollOnce();
  }
  EXPECT_GE(pollable_.ticks, ticks + 8);
}

TEST_F(PollerTest, KeepsTime) {
  Add();
  poller_->PollOnce();
  EXPECT_EQ(poller_->now(), pollable_.ticked_at);
  EXPECT_LT(absl::AbsDuration(base::Now() - poller_->now()), kLong);
}

TEST_F(PollerTest, SleepsUntilItIsTold) {
  EXPECT_GE(TimeSleep(base::Now() + absl::Milliseconds(5)),
            absl::Milliseconds(5));
}

TEST_F(PollerTest, DoesNotSleepWhenTheTimeHasPassed) {
  EXPECT_LT(TimeSleep(absl::InfinitePast()), kLong);
}

TEST_F(PollerTest, WakesForTheNextTickOfAPollable) {
  Add();
  pollable_.next_tick = base::Now() + absl::Milliseconds(5);
  EXPECT_LT(TimeSleep(absl::InfiniteFuture()), kLong);
  poller_->PollOnce();
  EXPECT_GE(pollable_.ticked_at, pollable_.next_tick);
}

TEST_F(PollerTest, DoesNotSleepWhenSomethingCameBeforeItArmed) {
  Add();
  // Arrives between the last poll and the arming, and raises no event.
  pollable_.ready_when_armed = 1;
  EXPECT_FALSE(poller_->PrepareSleep());
  EXPECT_EQ(pollable_.arms, 1);
  pollable_.ready_when_armed = 0;
  EXPECT_TRUE(poller_->PrepareSleep());
  poller_->WaitForEvent(absl::InfinitePast());
}

TEST_F(PollerTest, DoesNotSleepWhenItCannotArm) {
  Add();
  pollable_.arm_status = absl::UnavailableError("device gone");
  EXPECT_LT(TimeSleep(absl::InfiniteFuture()), kLong);
}

TEST_F(PollerTest, WakesForADescriptorAndHandlesItAtOnce) {
  const base::UniqueFd event(eventfd(0, EFD_CLOEXEC));
  pollable_.descriptor = event.get();
  Add();
  poller_->PollOnce();
  EXPECT_EQ(pollable_.looks, 0);
  std::thread writer([&event] {
    const uint64_t one = 1;
    EXPECT_EQ(write(event.get(), &one, sizeof(one)),
              static_cast<ssize_t>(sizeof(one)));
  });
  EXPECT_LT(TimeSleep(absl::InfiniteFuture()), kLong);
  writer.join();
  poller_->PollOnce();
  EXPECT_EQ(pollable_.looks, 1);
  poller_->PollOnce();
  EXPECT_EQ(pollable_.looks, 1);
}

TEST_F(PollerTest, LooksAtDescriptorsWhileItPolls) {
  const base::UniqueFd event(eventfd(1, EFD_CLOEXEC));
  pollable_.descriptor = event.get();
  Add();
  const absl::Time start = base::Now();
  while (pollable_.looks == 0) {
    poller_->PollOnce();
    ASSERT_LT(base::Now() - start, kLong);
  }
}

TEST_F(PollerTest, LooksAtNoDescriptorButTheReadableOne) {
  const base::UniqueFd quiet(eventfd(0, EFD_CLOEXEC));
  const base::UniqueFd event(eventfd(1, EFD_CLOEXEC));
  FakePollable other;
  other.descriptor = quiet.get();
  poller_->Add(&other);
  pollable_.descriptor = event.get();
  Add();
  EXPECT_LT(TimeSleep(absl::InfiniteFuture()), kLong);
  poller_->PollOnce();
  EXPECT_EQ(pollable_.looks, 1);
  EXPECT_EQ(other.looks, 0);
  poller_->Remove(&other);
}

// A wake-up is for a thread that is about to sleep while others poll.
TEST_F(PollerTest, TakesNoWakeUpWhileItPolls) {
  Add();
  poller_->Wake();
  const int ticks = pollable_.ticks;
  while (pollable_.ticks < ticks + 3) poller_->PollOnce();
  EXPECT_LT(TimeSleep(absl::InfiniteFuture()), kLong);
}

TEST_F(PollerTest, ForgetsTheDescriptorOfWhatWasRemoved) {
  const base::UniqueFd event(eventfd(1, EFD_CLOEXEC));
  pollable_.descriptor = event.get();
  pollable_.empties = false;
  poller_->Add(&pollable_);
  EXPECT_LT(TimeSleep(absl::InfiniteFuture()), kLong);
  poller_->Remove(&pollable_);
  EXPECT_GE(TimeSleep(base::Now() + absl::Milliseconds(5)),
            absl::Milliseconds(5));
}

// Whichever tick brings what somebody waits for, the one before the sleep too.
TEST_F(PollerTest, DoesNotSleepWhenATickBroughtWhatItWaitsFor) {
  Add();
  for (int more = 1; more <= 4; ++more) {
    const int wanted = pollable_.ticks + more;
    pollable_.next_tick = base::Now() + absl::Milliseconds(1);
    const absl::Time start = base::Now();
    poller_->PollUntil(
        [&] {
          if (pollable_.ticks < wanted) return false;
          pollable_.next_tick = absl::InfiniteFuture();
          return true;
        },
        start + 2 * kLong);
    EXPECT_GE(pollable_.ticks, wanted);
    EXPECT_LT(base::Now() - start, kLong);
  }
}

TEST_F(PollerTest, WakesWhenItIsWokenBeforeItSleeps) {
  poller_->Wake();
  EXPECT_LT(TimeSleep(absl::InfiniteFuture()), kLong);
  // Only once.
  EXPECT_GE(TimeSleep(base::Now() + absl::Milliseconds(5)),
            absl::Milliseconds(5));
}

TEST_F(PollerTest, WakesWhenItIsWokenWhileItSleeps) {
  std::thread waker([this] { poller_->Wake(); });
  EXPECT_LT(TimeSleep(absl::InfiniteFuture()), kLong);
  waker.join();
}

// Every task must be seen: by the poll before a sleep, or because it wakes.
TEST_F(PollerTest, LosesNoTaskThatIsPostedWhileItFallsAsleep) {
  constexpr int kRounds = 2000;
  std::atomic<int> ran{0};
  std::thread poster([this, &ran] {
    for (int i = 0; i < kRounds; ++i) {
      PostFunction(*poller_, [&ran] { ran.fetch_add(1); });
      // Posts one task at a time, so that each meets another stage of a sleep.
      while (ran.load() == i) std::this_thread::yield();
    }
  });
  const absl::Time deadline = base::Now() + kLong;
  while (base::Now() < deadline) {
    poller_->PollOnce();
    if (ran.load() == kRounds) break;
    poller_->Sleep(deadline);
  }
  EXPECT_EQ(ran.load(), kRounds);
  EXPECT_LT(base::Now(), deadline) << "a wake-up was lost";
  // Lets a poster that waits for its task go.
  while (ran.load() < kRounds) poller_->PollOnce();
  poster.join();
}

TEST_F(PollerTest, TakesTasksFromManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kTasks = 2000;
  int ran = 0;
  std::vector<int> last(kThreads, -1);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([this, thread, &ran, &last] {
      for (int i = 0; i < kTasks; ++i) {
        PostFunction(*poller_, [thread, i, &ran, &last] {
          ++ran;
          EXPECT_EQ(last[thread], i - 1);
          last[thread] = i;
        });
      }
    });
  }
  const absl::Time deadline = base::Now() + kLong;
  while (ran < kThreads * kTasks && base::Now() < deadline) {
    const bool idle = poller_->PollOnce() == 0;
    if (idle && ran < kThreads * kTasks) poller_->Sleep(deadline);
  }
  for (std::thread& thread : threads) thread.join();
  while (poller_->PollOnce() > 0) {
  }
  EXPECT_EQ(ran, kThreads * kTasks);
  EXPECT_LT(base::Now(), deadline) << "a wake-up was lost";
}

TEST_F(PollerTest, LetsOthersPollWhileOneWaitsWithoutTheRole) {
  ASSERT_TRUE(poller_->PrepareSleep());
  poller_->Leave();
  std::atomic<bool> woke{false};
  std::thread waiter([this, &woke] {
    poller_->WaitForEvent(absl::InfiniteFuture());
    woke.store(true);
  });
  poller_->Enter();
  bool ran = false;
  PostFunction(*poller_, [&ran] { ran = true; });
  poller_->PollOnce();
  EXPECT_TRUE(ran);
  poller_->Wake();
  waiter.join();
  EXPECT_TRUE(woke.load());
}

// Has something to finish when it is told so.
class FinishingPollable final : public FakePollable {
 public:
  bool FinishRound() override {
    if (!std::exchange(unfinished, false)) return false;
    ++finished;
    if (next != nullptr) next->unfinished = true;
    return true;
  }

  bool unfinished = false;
  int finished = 0;
  FinishingPollable* next = nullptr;  // Gets something to finish.
};

TEST_F(PollerTest, FinishesWhatOnePollableGivesAnother) {
  FinishingPollable a;
  FinishingPollable b;
  poller_->Add(&a);
  poller_->Add(&b);
  b.unfinished = true;
  b.next = &a;
  poller_->PollOnce();
  EXPECT_EQ(b.finished, 1);
  EXPECT_EQ(a.finished, 1);
  EXPECT_FALSE(poller_->in_round());
  poller_->PollOnce();
  EXPECT_EQ(a.finished, 1);
  poller_->Remove(&a);
  poller_->Remove(&b);
}

TEST_F(PollerTest, IsInARoundWhileItRunsTasks) {
  bool in_round = false;
  PostFunction(*poller_, [&] { in_round = poller_->in_round(); });
  poller_->PollOnce();
  EXPECT_TRUE(in_round);
  EXPECT_FALSE(poller_->in_round());
}

TEST_F(PollerTest, MayGetMoreToDriveWhileItPolls) {
  PostFunction(*poller_, [this] { Add(); });
  EXPECT_EQ(poller_->PollOnce(), 1);
  EXPECT_EQ(pollable_.polls_made, 1);
}

using PollerDeathTest = PollerTest;

TEST_F(PollerDeathTest, AbortsWhenTwoUseIt) {
  EXPECT_DEATH(poller_->Enter(), "two use a poller");
}

}  // namespace
}  // namespace verbena::transport
