#include "transport/memory/block_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace verbena::transport {
namespace {

TEST(BlockTableTest, KeepsEveryDescriptorInItsPlace) {
  BlockTable table;
  std::vector<PoolBlock*> blocks;
  for (uint32_t i = 0; i < 10000; ++i) {
    blocks.push_back(table.Add());
    EXPECT_EQ(blocks.back()->number, i);
  }
  for (uint32_t i = 0; i < 10000; ++i) ASSERT_EQ(table.At(i), blocks[i]);
  EXPECT_EQ(table.size(), 10000u);
}

TEST(BlockStackTest, GivesBackTheLastFirst) {
  BlockTable table;
  PoolBlock* const first = table.Add();
  PoolBlock* const second = table.Add();
  BlockStack stack;
  EXPECT_EQ(stack.Pop(table), nullptr);
  stack.Push(first);
  stack.Push(second);
  EXPECT_EQ(stack.Pop(table), second);
  EXPECT_EQ(stack.Pop(table), first);
  EXPECT_EQ(stack.Pop(table), nullptr);
}

TEST(BlockStackTest, NeverGivesABlockToTwoThreads) {
  constexpr int kThreads = 4;
  BlockTable table;
  BlockStack stack;
  std::vector<std::atomic<int>> holders(8);
  for (size_t i = 0; i < holders.size(); ++i) stack.Push(table.Add());
  std::atomic<int> wrong{0};
  const auto work = [&] {
    for (int i = 0; i < 20000; ++i) {
      PoolBlock* const block = stack.Pop(table);
      if (block == nullptr) continue;
      wrong += holders[block->number].fetch_add(1);
      holders[block->number].fetch_sub(1);
      stack.Push(block);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  size_t left = 0;
  while (stack.Pop(table) != nullptr) ++left;
  EXPECT_EQ(left, holders.size());
}

}  // namespace
}  // namespace verbena::transport
