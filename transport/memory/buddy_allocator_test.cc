#include "transport/memory/buddy_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "transport/base/test_seed.h"

namespace verbena::transport {
namespace {

constexpr uint64_t kBlock = BuddyAllocator::kMinBlockBytes;

// An allocator beside a naive model of it: every smallest block is used or not.
// Copies are independent of each other.
class Checked {
 public:
  explicit Checked(uint64_t capacity)
      : allocator_(capacity), used_(capacity / kBlock, false) {}

  void Allocate(uint64_t bytes) {
    const uint64_t blocks = BuddyAllocator::BlockBytes(bytes) / kBlock;
    const uint64_t range = std::bit_ceil(blocks);
    const std::optional<uint64_t> offset = allocator_.Allocate(bytes);
    ASSERT_EQ(offset.has_value(), HasFree(range));
    if (!offset.has_value()) return;
    ASSERT_EQ(*offset % (range * kBlock), 0u);
    ASSERT_LE(*offset + bytes, allocator_.capacity());
    ASSERT_TRUE(IsFree(*offset / kBlock, blocks));
    Mark(*offset, blocks, true);
    live_[*offset] = bytes;
    CheckLargest();
  }

  // The `index`th of the blocks that are allocated.
  void Free(size_t index) {
    const auto it = std::next(live_.begin(), static_cast<ptrdiff_t>(index));
    allocator_.Free(it->first, it->second);
    Mark(it->first, BuddyAllocator::BlockBytes(it->second) / kBlock, false);
    live_.erase(it);
    CheckLargest();
  }

  size_t live() const { return live_.size(); }

 private:
  bool IsFree(uint64_t first, uint64_t blocks) const {
    for (uint64_t i = first; i < first + blocks; ++i) {
      if (used_[i]) return false;
    }
    return true;
  }

  bool HasFree(uint64_t blocks) const {
    for (uint64_t first = 0; first + blocks <= used_.size(); first += blocks) {
      if (IsFree(first, blocks)) return true;
    }
    return false;
  }

  void Mark(uint64_t offset, uint64_t blocks, bool used) {
    for (uint64_t i = 0; i < blocks; ++i) used_[offset / kBlock + i] = used;
  }

  void CheckLargest() const {
    uint64_t blocks = used_.size();
    while (blocks > 0 && !HasFree(blocks)) blocks /= 2;
    ASSERT_EQ(allocator_.largest_free_block(), blocks * kBlock);
  }

  BuddyAllocator allocator_;
  std::vector<bool> used_;
  std::map<uint64_t, uint64_t> live_;  // Offset to the bytes asked for.
};

// Does everything that can be done in `steps` steps.
void TryAll(const Checked& state, uint64_t capacity, int steps) {
  if (steps == 0 || testing::Test::HasFatalFailure()) return;
  for (uint64_t bytes = kBlock; bytes <= capacity; bytes += kBlock) {
    Checked next = state;
    next.Allocate(bytes);
    TryAll(next, capacity, steps - 1);
  }
  for (size_t i = 0; i < state.live(); ++i) {
    Checked next = state;
    next.Free(i);
    TryAll(next, capacity, steps - 1);
  }
}

TEST(BuddyAllocatorTest, AgreesWithTheModelInEveryShortHistory) {
  for (const uint64_t capacity : {kBlock, 2 * kBlock, 4 * kBlock}) {
    TryAll(Checked(capacity), capacity, 5);
  }
}

TEST(BuddyAllocatorTest, AgreesWithTheModelInLongRandomHistories) {
  std::mt19937 random(base::TestSeed());
  for (int history = 0; history < 8; ++history) {
    const uint64_t capacity = kBlock << (history + 1);
    Checked checked(capacity);
    for (int step = 0; step < 2000 && !HasFatalFailure(); ++step) {
      // Phases that fill alternate with phases that empty.
      const bool filling = (step / 200) % 2 == 0;
      if (checked.live() == 0 || random() % 4 < (filling ? 3u : 1u)) {
        const uint64_t most = capacity >> (random() % 8);
        checked.Allocate(random() % std::max<uint64_t>(most, 1) + 1);
      } else {
        checked.Free(random() % checked.live());
      }
    }
    while (checked.live() > 0 && !HasFatalFailure()) checked.Free(0);
  }
}

TEST(BuddyAllocatorTest, LeavesWhatIsBehindABlockToOthers) {
  BuddyAllocator allocator(16 * kBlock);
  EXPECT_EQ(BuddyAllocator::BlockBytes(9 * kBlock), 10 * kBlock);
  EXPECT_EQ(allocator.Allocate(9 * kBlock), 0u);
  EXPECT_EQ(allocator.Allocate(kBlock), 10 * kBlock);
  EXPECT_EQ(allocator.Allocate(4 * kBlock), 12 * kBlock);
  allocator.Free(0, 9 * kBlock);
  EXPECT_EQ(allocator.largest_free_block(), 8 * kBlock);
  allocator.Free(10 * kBlock, kBlock);
  allocator.Free(12 * kBlock, 4 * kBlock);
  EXPECT_EQ(allocator.largest_free_block(), 16 * kBlock);
}

TEST(BuddyAllocatorTest, GivesOutAllOfItsCapacity) {
  BuddyAllocator allocator(uint64_t{1} << 20);
  std::vector<uint64_t> offsets;
  while (const std::optional<uint64_t> offset = allocator.Allocate(kBlock)) {
    offsets.push_back(*offset);
  }
  EXPECT_EQ(offsets.size(), 256u);
  EXPECT_EQ(allocator.largest_free_block(), 0u);
  for (const uint64_t offset : offsets) allocator.Free(offset, kBlock);
  EXPECT_EQ(allocator.largest_free_block(), uint64_t{1} << 20);
  EXPECT_EQ(allocator.Allocate(uint64_t{1} << 20), 0u);
}

TEST(BuddyAllocatorTest, HasNothingLargerThanItself) {
  BuddyAllocator allocator(4 * kBlock);
  EXPECT_EQ(allocator.Allocate(4 * kBlock + 1), std::nullopt);
  EXPECT_EQ(allocator.Allocate(UINT64_MAX), std::nullopt);
  EXPECT_EQ(allocator.Allocate(4 * kBlock), 0u);
}

TEST(BuddyAllocatorTest, KeepsLargeBlocksWhole) {
  BuddyAllocator allocator(8 * kBlock);
  const uint64_t small = *allocator.Allocate(kBlock);
  const uint64_t other = *allocator.Allocate(kBlock);
  EXPECT_EQ(other, small + kBlock);  // Its buddy, not half of a larger block.
  EXPECT_EQ(allocator.largest_free_block(), 4 * kBlock);
}

TEST(BuddyAllocatorDeathTest, AbortsOnWhatIsNotOut) {
  BuddyAllocator allocator(8 * kBlock);
  const uint64_t offset = *allocator.Allocate(2 * kBlock);
  EXPECT_DEATH(allocator.Free(offset, kBlock), "freed twice, or never");
  EXPECT_DEATH(allocator.Free(offset, 4 * kBlock), "freed twice, or never");
  EXPECT_DEATH(allocator.Free(offset + 1, 2 * kBlock), "is not a block");
  EXPECT_DEATH(allocator.Free(8 * kBlock, kBlock), "Check failed");
  EXPECT_DEATH(allocator.Free(offset, 16 * kBlock), "Check failed");
  allocator.Free(offset, 2 * kBlock);
  EXPECT_DEATH(allocator.Free(offset, 2 * kBlock), "freed twice, or never");
}

TEST(BuddyAllocatorDeathTest, AbortsWhenTwoBlocksAreFreedAsOne) {
  BuddyAllocator allocator(2 * kBlock);
  allocator.Allocate(kBlock);
  allocator.Allocate(kBlock);
  EXPECT_DEATH(allocator.Free(0, 2 * kBlock), "freed twice, or never");
}

TEST(BuddyAllocatorDeathTest, AbortsOnACapacityThatCannotBeHalved) {
  EXPECT_DEATH(BuddyAllocator(3 * kBlock), "Check failed");
  EXPECT_DEATH(BuddyAllocator(kBlock / 2), "Check failed");
  EXPECT_DEATH(BuddyAllocator(0), "Check failed");
}

}  // namespace
}  // namespace verbena::transport
