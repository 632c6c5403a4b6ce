#include "transport/base/thread_group.h"

#include <pthread.h>

#include <atomic>
#include <cstddef>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace verbena::base {
namespace {

TEST(ThreadGroupTest, JoinWaitsForThreadsThatThreadsStart) {
  std::atomic<int> ran = 0;
  ThreadGroup group("test");
  ASSERT_TRUE(group
                  .Start([&] {
                    ASSERT_TRUE(group
                                    .Start([&] {
                                      ASSERT_TRUE(
                                          group.Start([&] { ++ran; }).ok());
                                      ++ran;
                                    })
                                    .ok());
                    ++ran;
                  })
                  .ok());
  group.Join();
  EXPECT_EQ(ran, 3);
}

TEST(ThreadGroupTest, JoinForSaysWhetherAllHaveEnded) {
  std::atomic<bool> may_end = false;
  ThreadGroup group("test");
  ASSERT_TRUE(group.Start([&] { may_end.wait(false); }).ok());
  EXPECT_FALSE(group.JoinFor(absl::ZeroDuration()));
  may_end = true;
  may_end.notify_all();
  EXPECT_TRUE(group.JoinFor(absl::InfiniteDuration()));
}

TEST(ThreadGroupTest, ThreadsHaveTheNameOfTheirGroup) {
  char name[16] = "";
  ThreadGroup group("verbena-test");
  ASSERT_TRUE(group
                  .Start([&] {
                    pthread_getname_np(pthread_self(), name, sizeof(name));
                  })
                  .ok());
  group.Join();
  EXPECT_STREQ(name, "verbena-test");
}

TEST(ThreadGroupTest, AThousandThreadsComeAndGo) {
  std::atomic<int> ran = 0;
  ThreadGroup group("test");
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(group.Start([&] { ++ran; }).ok());
  }
  group.Join();
  EXPECT_EQ(ran, 1000);
}

TEST(ThreadGroupTest, NobodyWaitsForTheDestructorsOfAThreadThatHasEnded) {
  struct SlowToGo {
    ~SlowToGo() {
      if (started == nullptr) return;
      ended->store(true);
      ended->notify_all();
      started->wait(false);
    }
    std::atomic<bool>* ended = nullptr;
    std::atomic<bool>* started = nullptr;
  };
  std::atomic<bool> ended = false, started = false;
  ThreadGroup group("test");
  ASSERT_TRUE(group
                  .Start([&] {
                    static thread_local SlowToGo slow;
                    slow.ended = &ended;
                    slow.started = &started;
                  })
                  .ok());
  ended.wait(false);
  ASSERT_TRUE(group.Start([] {}).ok());  // Hangs if it waits.
  started = true;
  started.notify_all();
  group.Join();
}

// No process has room for a stack of this size.
TEST(ThreadGroupTest, AThreadThatTheSystemRefusesIsAnError) {
  pthread_attr_t usual, absurd;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_attr_init(&absurd), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&absurd, size_t{1} << 50), 0);
  ASSERT_EQ(pthread_setattr_default_np(&absurd), 0);
  std::atomic<int> ran = 0;
  ThreadGroup group("test");
  const absl::Status refused = group.Start([&] { ++ran; });
  ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_TRUE(group.Start([&] { ++ran; }).ok());
  group.Join();
  EXPECT_EQ(ran, 1);
  pthread_attr_destroy(&absurd);
  pthread_attr_destroy(&usual);
}

}  // namespace
}  // namespace verbena::base
