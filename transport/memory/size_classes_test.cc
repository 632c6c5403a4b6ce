#include "transport/memory/size_classes.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace verbena::transport {
namespace {

constexpr uint64_t kMega = uint64_t{1} << 20;

uint64_t BlockBytes(uint64_t bytes) { return SizeClassFor(bytes).block_bytes; }

TEST(SizeClassesTest, RoundUpToPagesAndThenToQuarters) {
  EXPECT_EQ(BlockBytes(1), 4096u);
  EXPECT_EQ(BlockBytes(4096), 4096u);
  EXPECT_EQ(BlockBytes(4097), 8192u);
  EXPECT_EQ(BlockBytes(uint64_t{7} * 4096), uint64_t{7} * 4096);
  EXPECT_EQ(BlockBytes(uint64_t{8} * 4096), uint64_t{8} * 4096);
  EXPECT_EQ(BlockBytes(8 * 4096 + 1), uint64_t{10} * 4096);
  EXPECT_EQ(BlockBytes(kMega), kMega);
  EXPECT_EQ(BlockBytes(kMega + 1), kMega + kMega / 4);
  EXPECT_EQ(BlockBytes(uint64_t{1} << 32), uint64_t{1} << 32);
}

TEST(SizeClassesTest, HaveOneSizeEachAndNoGaps) {
  SizeClass last;
  uint64_t bytes = 1;
  for (uint32_t index = 0; index < kSizeClasses; ++index) {
    const SizeClass found = SizeClassFor(bytes);
    ASSERT_EQ(found.index, index);
    ASSERT_GT(found.block_bytes, last.block_bytes);
    ASSERT_EQ(SizeClassFor(found.block_bytes).index, index);
    last = found;
    bytes = found.block_bytes + 1;
  }
  EXPECT_EQ(last.block_bytes, uint64_t{1} << 32);
}

TEST(SizeClassesTest, WasteAtMostAQuarter) {
  for (uint64_t bytes = uint64_t{8} * 4096; bytes < 64 * kMega;
       bytes += 12345) {
    EXPECT_LE(BlockBytes(bytes), bytes + bytes / 4 + 4096) << bytes;
  }
}

}  // namespace
}  // namespace verbena::transport
