#include "transport/soft/memory/memory_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

namespace verbena::soft {
namespace {

constexpr unsigned int kRead = 4;
constexpr unsigned int kWrite = 2;

// Two owners, of which only the addresses matter.
const auto* const kDomain = reinterpret_cast<const void*>(0x1000);
const auto* const kOther = reinterpret_cast<const void*>(0x2000);

class MemoryTableTest : public testing::Test {
 protected:
  bool Allowed(uint64_t address, uint64_t length, unsigned int access = kRead) {
    return table.Translate(key, kDomain, address, length, access) ==
           reinterpret_cast<std::byte*>(address);
  }

  MemoryTable table;
  const uint32_t key = table.Add(kDomain, 10'000, 100, kRead);
};

TEST_F(MemoryTableTest, TheRangeIsCheckedAtBothEdges) {
  EXPECT_TRUE(Allowed(10'000, 100));
  EXPECT_TRUE(Allowed(10'099, 1));
  EXPECT_FALSE(Allowed(9'999, 1));
  EXPECT_FALSE(Allowed(9'999, 2));
  EXPECT_FALSE(Allowed(10'000, 101));
  EXPECT_FALSE(Allowed(10'099, 2));
  EXPECT_FALSE(Allowed(10'100, 1));
}

TEST_F(MemoryTableTest, TheFirstKeysAreShortIfThatIsAskedFor) {
  EXPECT_EQ(table.ReserveForWindow() & 0xff, 0u);
  table.UseShortKeys();
  std::set<uint32_t> keys;
  for (int i = 0; i < 126; ++i) {
    keys.insert(table.Add(kDomain, 10'000, 100, kRead));
  }
  EXPECT_EQ(keys.size(), 126u);
  EXPECT_LT(*keys.rbegin(), 1u << 24);
  // There is no end to them, only to the short ones.
  for (int i = 0; i < 1000; ++i) {
    keys.insert(table.Add(kDomain, 10'000, 100, kRead));
  }
  EXPECT_EQ(keys.size(), 1126u);
  EXPECT_GE(*keys.rbegin(), 1u << 24);
}

TEST_F(MemoryTableTest, RangesThatWrapAreRefused) {
  EXPECT_FALSE(Allowed(10'050, UINT64_MAX));
  EXPECT_FALSE(Allowed(10'050, UINT64_MAX - 10'000));
  EXPECT_FALSE(Allowed(UINT64_MAX, 1));
  EXPECT_FALSE(Allowed(UINT64_MAX, 20'000));
}

TEST_F(MemoryTableTest, ARegionThatEndsAtTheTopOfMemoryIsReached) {
  const uint32_t top = table.Add(kDomain, UINT64_MAX - 9, 9, kRead);
  EXPECT_NE(table.Translate(top, kDomain, UINT64_MAX - 9, 9, kRead), nullptr);
  EXPECT_EQ(table.Translate(top, kDomain, UINT64_MAX - 9, 10, kRead), nullptr);
}

TEST_F(MemoryTableTest, EveryRightAskedForIsNeeded) {
  EXPECT_TRUE(Allowed(10'000, 1, 0));
  EXPECT_FALSE(Allowed(10'000, 1, kWrite));
  EXPECT_FALSE(Allowed(10'000, 1, kRead | kWrite));
}

TEST_F(MemoryTableTest, AnotherDomainIsRefused) {
  EXPECT_EQ(table.Translate(key, kOther, 10'000, 1, kRead), nullptr);
}

TEST_F(MemoryTableTest, OnlyTheWholeKeyOpens) {
  EXPECT_NE(key, 0u);
  for (int bit = 0; bit < 32; ++bit) {
    EXPECT_EQ(table.Translate(key ^ (1u << bit), kDomain, 10'000, 1, kRead),
              nullptr);
  }
  EXPECT_EQ(table.Translate(0, kDomain, 10'000, 1, kRead), nullptr);
}

TEST_F(MemoryTableTest, AShiftedRegionIsNamedByOtherAddresses) {
  const uint32_t low = table.Add(kDomain, 0, 100, kRead, 50'000);
  EXPECT_EQ(table.Translate(low, kDomain, 0, 100, kRead),
            reinterpret_cast<std::byte*>(50'000));
  EXPECT_EQ(table.Translate(low, kDomain, 50'000, 1, kRead), nullptr);
  const uint32_t high = table.Add(kDomain, 50'000, 100, kRead, -40'000);
  EXPECT_EQ(table.Translate(high, kDomain, 50'099, 1, kRead),
            reinterpret_cast<std::byte*>(10'099));
}

TEST_F(MemoryTableTest, ARemovedRegionIsGone) {
  table.Remove(key);
  EXPECT_FALSE(Allowed(10'000, 1));
}

TEST_F(MemoryTableTest, ItHoldsAsManyAsItPromisesAndNoMore) {
  std::set<uint32_t> keys = {key};
  while (keys.size() < MemoryTable::kRegionsMax) {
    const uint32_t next = table.Add(kDomain, 20'000, 1, kRead);
    ASSERT_NE(next, 0u);
    ASSERT_TRUE(keys.insert(next).second);
  }
  EXPECT_EQ(table.Add(kDomain, 20'000, 1, kRead), 0u);
  table.Remove(key);
  EXPECT_NE(table.Add(kDomain, 20'000, 1, kRead), 0u);
}

TEST_F(MemoryTableTest, LookingUpWhileOthersComeAndGoIsSafe) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> churn;
  for (int i = 0; i < 2; ++i) {
    churn.emplace_back([&] {
      while (!stop) table.Remove(table.Add(kOther, 1, 1, kWrite));
    });
  }
  for (int i = 0; i < 100'000; ++i) ASSERT_TRUE(Allowed(10'000, 100));
  stop = true;
  for (std::thread& thread : churn) thread.join();
}

}  // namespace
}  // namespace verbena::soft
