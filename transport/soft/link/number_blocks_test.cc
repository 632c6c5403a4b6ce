#include "transport/soft/link/number_blocks.h"

#include <cstdint>
#include <set>

#include "gtest/gtest.h"

namespace verbena::soft {
namespace {

class NumberBlocksTest : public testing::Test {
 protected:
  NumberBlocks Blocks() {
    return NumberBlocks([this](int) { ++blocks_; });
  }
  int blocks_ = 0;
};

TEST_F(NumberBlocksTest, NumbersAreUniqueAmongAllWhoTakeThem) {
  NumberBlocks one = Blocks();
  NumberBlocks other = Blocks();
  std::set<uint32_t> numbers;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(numbers.insert(one.Take()).second);
    EXPECT_TRUE(numbers.insert(other.Take()).second);
  }
  EXPECT_GT(*numbers.begin(), 1u);
  EXPECT_LT(*numbers.rbegin(), 0xffffffu);
}

TEST_F(NumberBlocksTest, OneSocketServesManyNumbers) {
  NumberBlocks blocks = Blocks();
  const uint32_t first = blocks.Take();
  for (int i = 1; i < 256; ++i) {
    EXPECT_EQ(NumberBlocks::SocketName(blocks.Take()),
              NumberBlocks::SocketName(first));
  }
  EXPECT_EQ(blocks_, 1);
  blocks.Take();
  EXPECT_EQ(blocks_, 2);
}

TEST_F(NumberBlocksTest, ReturnedNumberIsTakenAgainLast) {
  NumberBlocks blocks = Blocks();
  const uint32_t first = blocks.Take();
  blocks.Return(first);
  for (int i = 1; i < 256; ++i) EXPECT_NE(blocks.Take(), first);
  EXPECT_EQ(blocks.Take(), first);
}

TEST_F(NumberBlocksTest, WhoeverTakesAllNamesKeepsNobodyFromNumbers) {
  constexpr uint32_t kNamed = 2;
  const auto count = [this](int) { ++blocks_; };
  NumberBlocks greedy(count, kNamed);
  std::set<uint32_t> numbers;
  for (int i = 0; i < 2 * 256; ++i) numbers.insert(greedy.Take());
  const int named = blocks_;
  NumberBlocks other(count, kNamed);
  for (int i = 0; i < 2 * 256; ++i) {
    const uint32_t number = other.Take();
    EXPECT_GT(number, 1u);
    EXPECT_LT(number, 0xffff00u);
    EXPECT_TRUE(numbers.insert(number).second);
  }
  EXPECT_EQ(blocks_, named);
}

}  // namespace
}  // namespace verbena::soft
