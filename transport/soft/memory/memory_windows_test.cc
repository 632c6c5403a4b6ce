#include "transport/soft/memory/memory_windows.h"

#include <gtest/gtest.h>

namespace verbena::soft {
namespace {

const auto* const kDomain = reinterpret_cast<const void*>(0x1000);
const auto* const kOther = reinterpret_cast<const void*>(0x2000);
const auto* const kQueuePair = reinterpret_cast<const void*>(0x3000);
const auto* const kOtherQueuePair = reinterpret_cast<const void*>(0x4000);

constexpr unsigned int kRead = IBV_ACCESS_REMOTE_READ;
constexpr unsigned int kWrite = IBV_ACCESS_REMOTE_WRITE;

class MemoryWindowsTest : public testing::Test {
 protected:
  // Binds [10'000, 10'050) unless told otherwise.
  bool Bind(uint32_t window, uint32_t access = kRead, uint64_t address = 10'000,
            uint64_t length = 50) {
    return windows.Bind({window, window, region, access, address, length},
                        kDomain, kQueuePair);
  }
  bool OpenTo(const void* owner, uint32_t key, uint64_t address = 10'000) {
    return table.Translate(key, owner, address, 1, kRead) != nullptr;
  }

  MemoryTable table;
  MemoryWindows windows{table};
  const uint32_t region =
      table.Add(kDomain, 10'000, 100,
                kRead | IBV_ACCESS_MW_BIND | IBV_ACCESS_LOCAL_WRITE);
  const uint32_t one = windows.Allocate(kDomain, IBV_MW_TYPE_1);
  const uint32_t two = windows.Allocate(kDomain, IBV_MW_TYPE_2);
};

TEST_F(MemoryWindowsTest, AWindowOpensNothingBeforeItIsBound) {
  EXPECT_NE(one, 0u);
  EXPECT_NE(two, one);
  EXPECT_FALSE(OpenTo(MemoryWindows::Owner(kDomain), one));
  EXPECT_FALSE(OpenTo(kQueuePair, two));
}

TEST_F(MemoryWindowsTest, TypeOneIsOpenToTheDomainButNotAsALocalKey) {
  ASSERT_TRUE(Bind(one));
  EXPECT_TRUE(OpenTo(MemoryWindows::Owner(kDomain), one));
  EXPECT_FALSE(OpenTo(MemoryWindows::Owner(kOther), one));
  EXPECT_FALSE(OpenTo(kDomain, one));
}

TEST_F(MemoryWindowsTest, TypeTwoIsOpenToTheQueuePairThatBoundIt) {
  ASSERT_TRUE(Bind(two));
  EXPECT_TRUE(OpenTo(kQueuePair, two));
  EXPECT_FALSE(OpenTo(kOtherQueuePair, two));
  EXPECT_FALSE(OpenTo(MemoryWindows::Owner(kDomain), two));
}

TEST_F(MemoryWindowsTest, OnlyItsPartAndItsRightsAreOpen) {
  ASSERT_TRUE(Bind(two, kRead, 10'010, 5));
  EXPECT_TRUE(OpenTo(kQueuePair, two, 10'010));
  EXPECT_TRUE(OpenTo(kQueuePair, two, 10'014));
  EXPECT_FALSE(OpenTo(kQueuePair, two, 10'009));
  EXPECT_FALSE(OpenTo(kQueuePair, two, 10'015));
  EXPECT_EQ(table.Translate(two, kQueuePair, 10'010, 1, kWrite), nullptr);
}

TEST_F(MemoryWindowsTest, AZeroBasedWindowIsNamedFromZero) {
  ASSERT_TRUE(Bind(two, kRead | IBV_ACCESS_ZERO_BASED, 10'010, 5));
  EXPECT_EQ(table.Translate(two, kQueuePair, 1, 4, kRead),
            reinterpret_cast<std::byte*>(10'011));
  EXPECT_FALSE(OpenTo(kQueuePair, two, 10'010));
  EXPECT_FALSE(Bind(one, kRead | IBV_ACCESS_ZERO_BASED)) << "type 2 only";
}

TEST_F(MemoryWindowsTest, AWindowInAShiftedRegionIsShiftedToo) {
  const uint32_t shifted =
      table.Add(kDomain, 0, 100, IBV_ACCESS_MW_BIND, 10'000);
  ASSERT_TRUE(
      windows.Bind({two, two, shifted, kRead, 20, 10}, kDomain, kQueuePair));
  EXPECT_EQ(table.Translate(two, kQueuePair, 25, 1, kRead),
            reinterpret_cast<std::byte*>(10'025));
}

TEST_F(MemoryWindowsTest, TheLowBitsOfTheKeyAreTheUsers) {
  const uint32_t next = two ^ 0x5a;
  ASSERT_TRUE(windows.Bind({two, next, region, kRead, 10'000, 50}, kDomain,
                           kQueuePair));
  EXPECT_TRUE(OpenTo(kQueuePair, next));
  EXPECT_FALSE(OpenTo(kQueuePair, two));
  EXPECT_FALSE(windows.Invalidate(two, kQueuePair));
  EXPECT_TRUE(windows.Invalidate(next, kQueuePair));
  EXPECT_FALSE(OpenTo(kQueuePair, next));
}

TEST_F(MemoryWindowsTest, ANewWindowsKeyEndsInZeros) {
  EXPECT_EQ(one & 0xff, 0u);
  EXPECT_EQ(two & 0xff, 0u);
}

TEST_F(MemoryWindowsTest, TheHighBitsAreNot) {
  EXPECT_TRUE(windows.Bind({two, 0x12345678, region, kRead, 10'000, 50},
                           kDomain, kQueuePair));
  EXPECT_FALSE(OpenTo(kQueuePair, 0x12345678));
  EXPECT_TRUE(OpenTo(kQueuePair, two | 0x78));
  EXPECT_FALSE(
      windows.Bind({two ^ 0x100, two ^ 0x100, region, kRead, 10'000, 50},
                   kDomain, kQueuePair));
}

TEST_F(MemoryWindowsTest, WhatIsOutsideTheRegionIsNotBound) {
  EXPECT_FALSE(Bind(two, kRead, 9'999, 50));
  EXPECT_FALSE(Bind(two, kRead, 10'051, 50));
  EXPECT_FALSE(Bind(two, kRead, 10'000, 101));
  EXPECT_FALSE(Bind(two, kRead, 10'000, UINT64_MAX));
  EXPECT_FALSE(Bind(two, kRead, 10'000, 0));
  EXPECT_FALSE(OpenTo(kQueuePair, two));
}

TEST_F(MemoryWindowsTest, TheRegionMustAllowWindowsAndForWritingLocalWriting) {
  const uint32_t closed = table.Add(kDomain, 10'000, 100, kRead);
  EXPECT_FALSE(
      windows.Bind({two, two, closed, kRead, 10'000, 50}, kDomain, kQueuePair));
  const uint32_t read_only =
      table.Add(kDomain, 10'000, 100, IBV_ACCESS_MW_BIND);
  EXPECT_FALSE(windows.Bind({two, two, read_only, kWrite, 10'000, 50}, kDomain,
                            kQueuePair));
  EXPECT_TRUE(windows.Bind({two, two, read_only, kRead, 10'000, 50}, kDomain,
                           kQueuePair));
}

TEST_F(MemoryWindowsTest, AllThreeMustBeOfOneDomain) {
  EXPECT_FALSE(
      windows.Bind({two, two, region, kRead, 10'000, 50}, kOther, kQueuePair));
  const uint32_t foreign = table.Add(kOther, 10'000, 100, IBV_ACCESS_MW_BIND);
  EXPECT_FALSE(windows.Bind({two, two, foreign, kRead, 10'000, 50}, kDomain,
                            kQueuePair));
}

TEST_F(MemoryWindowsTest, OnlyTypeOneIsBoundAnewWhileItIsBound) {
  ASSERT_TRUE(Bind(one));
  EXPECT_TRUE(Bind(one, kRead, 10'060, 10));
  EXPECT_TRUE(OpenTo(MemoryWindows::Owner(kDomain), one, 10'060));
  EXPECT_FALSE(OpenTo(MemoryWindows::Owner(kDomain), one, 10'000));
  EXPECT_TRUE(Bind(one, 0, 0, 0)) << "to nothing";
  EXPECT_FALSE(OpenTo(MemoryWindows::Owner(kDomain), one, 10'060));
  ASSERT_TRUE(Bind(two));
  EXPECT_FALSE(Bind(two));
}

TEST_F(MemoryWindowsTest, OnlyTheQueuePairOfATypeTwoWindowInvalidatesIt) {
  ASSERT_TRUE(Bind(one));
  ASSERT_TRUE(Bind(two));
  EXPECT_FALSE(windows.Invalidate(one, kQueuePair));
  EXPECT_FALSE(windows.Invalidate(region, kQueuePair));
  EXPECT_FALSE(windows.Invalidate(two, kOtherQueuePair));
  EXPECT_TRUE(windows.Invalidate(two, kQueuePair));
  EXPECT_FALSE(windows.Invalidate(two, kQueuePair)) << "a second time";
  EXPECT_TRUE(Bind(two));
}

TEST_F(MemoryWindowsTest, ARegionWithABoundWindowStays) {
  ASSERT_TRUE(Bind(one));
  ASSERT_TRUE(Bind(two));
  EXPECT_FALSE(windows.RemoveRegion(region));
  EXPECT_FALSE(windows.CloseRegion(region));
  windows.Free(one);
  EXPECT_FALSE(windows.RemoveRegion(region));
  windows.ForgetQueuePair(kQueuePair);
  EXPECT_FALSE(OpenTo(kQueuePair, two));
  EXPECT_TRUE(windows.RemoveRegion(region));
  EXPECT_FALSE(Bind(two)) << "the region is gone";
}

TEST_F(MemoryWindowsTest, WindowsAndRegionsShareTheirNumber) {
  uint32_t count = 3;
  while (windows.Allocate(kDomain, IBV_MW_TYPE_2) != 0) ++count;
  EXPECT_EQ(count, MemoryTable::kRegionsMax);
  EXPECT_EQ(table.Add(kDomain, 0, 1, 0), 0u);
  windows.Free(one);
  EXPECT_NE(table.Add(kDomain, 0, 1, 0), 0u);
}

}  // namespace
}  // namespace verbena::soft
