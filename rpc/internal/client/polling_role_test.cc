#include "rpc/internal/client/polling_role.h"

#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "gtest/gtest.h"

namespace verbena::internal {
namespace {

// Takes the role, which is free.
void Acquire(PollingRole& role) ABSL_EXCLUSIVE_LOCK_FUNCTION(role) {
  while (!role.TryAcquire()) ADD_FAILURE();
}

TEST(PollingRoleTest, HasOneHolderAndKnowsIt) {
  PollingRole role;
  EXPECT_FALSE(role.HeldByThisThread());
  Acquire(role);
  EXPECT_TRUE(role.HeldByThisThread());
  EXPECT_FALSE(role.TryAcquire());
  std::thread([&role] {
    EXPECT_FALSE(role.TryAcquire());
    EXPECT_FALSE(role.HeldByThisThread());
  }).join();
  role.Release();
  EXPECT_FALSE(role.HeldByThisThread());
}

TEST(PollingRoleTest, ExcludesOtherThreads) {
  PollingRole role;
  int counter = 0;  // Not atomic: the role protects it.
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int done = 0; done < 1000;) {
        if (!role.TryAcquire()) {
          std::this_thread::yield();
          continue;
        }
        ++counter;
        ++done;
        role.Release();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, 4000);
}

}  // namespace
}  // namespace verbena::internal
