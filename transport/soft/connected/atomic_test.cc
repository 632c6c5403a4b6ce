// Atomics of the software device are atomic for the processor too.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

TestEndOptions WithAtomics() {
  TestEndOptions options;
  options.access |= IBV_ACCESS_REMOTE_ATOMIC;
  return options;
}

// Several queue pairs, each run by its own thread, and a plain atomic operation
// of the processor all add to one number.
TEST(AtomicRaceTest, NoAdditionOfAnyQueuePairOrOfTheProcessorIsLost) {
  constexpr int kQueuePairs = 2;
  constexpr uint64_t kEach = 20'000;
  alignas(4096) static uint64_t counter[512];
  const auto add_by_queue_pair = [] {
    TestEnd near(WithAtomics());
    TestEnd far(WithAtomics());
    ConnectManually(near, far);
    ibv_mr* region =
        far.verbs.reg_mr(far.pd, counter, sizeof(counter), far.options.access);
    for (uint64_t i = 0; i < kEach; ++i) {
      ASSERT_EQ(near.FetchAdd(i, 0, reinterpret_cast<uint64_t>(counter),
                              region->rkey, 1),
                0);
      ASSERT_EQ(near.Wait(&far).status, IBV_WC_SUCCESS);
    }
    EXPECT_EQ(far.verbs.dereg_mr(region), 0);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kQueuePairs; ++i) threads.emplace_back(add_by_queue_pair);
  std::atomic_ref<uint64_t> word(counter[0]);
  for (uint64_t i = 0; i < kEach; ++i) word.fetch_add(1);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(word.load(), (kQueuePairs + 1) * kEach);
}

TEST(AtomicDeviceTest, TheDeviceSaysThatTheyAreAtomicForEverybody) {
  TestEnd end;
  ibv_device_attr attributes;
  ASSERT_EQ(end.verbs.query_device(end.context, &attributes), 0);
  EXPECT_EQ(attributes.atomic_cap, IBV_ATOMIC_GLOB);
}

}  // namespace
}  // namespace verbena::soft
