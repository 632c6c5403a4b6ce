#include "transport/soft/link/number_blocks.h"

#include <cstdint>
#include <set>

#include "gtest/gtest.h"

namespace verbena::soft {
namespace {

class NumberBlocksTest : public testing::Test {
 protected:
  // Counts the sockets of `blocks`.
  void Count(NumberBlocks& blocks) {
    blocks.OnSocket([this](int) { ++sockets_; });
  }
  int sockets_ = 0;
};

uint32_t Take(NumberBlocks& blocks) { return blocks.Take(NumberKind::kOfHost); }

TEST_F(NumberBlocksTest, NumbersAreUniqueAmongAllWhoTakeThem) {
  NumberBlocks one;
  NumberBlocks other;
  std::set<uint32_t> numbers;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(numbers.insert(Take(one)).second);
    EXPECT_TRUE(numbers.insert(Take(other)).second);
  }
  EXPECT_GT(*numbers.begin(), 1u);
  EXPECT_LT(*numbers.rbegin(), 0xffffffu);
}

TEST_F(NumberBlocksTest, OneSocketServesManyNumbers) {
  NumberBlocks blocks;
  const uint32_t first = Take(blocks);
  for (int i = 1; i < 256; ++i) {
    EXPECT_EQ(NumberBlocks::SocketName(Take(blocks)),
              NumberBlocks::SocketName(first));
  }
  Count(blocks);
  EXPECT_EQ(sockets_, 1) << "the socket that there was";
  Take(blocks);
  EXPECT_EQ(sockets_, 2);
}

TEST_F(NumberBlocksTest, ReturnedNumberIsTakenAgainLast) {
  NumberBlocks blocks;
  const uint32_t first = Take(blocks);
  blocks.Return(first);
  for (int i = 1; i < 256; ++i) EXPECT_NE(Take(blocks), first);
  EXPECT_EQ(Take(blocks), first);
}

TEST_F(NumberBlocksTest, WhoeverTakesAllNamesKeepsNobodyFromNumbers) {
  constexpr uint32_t kNamed = 2;
  NumberBlocks greedy(kNamed);
  Count(greedy);
  std::set<uint32_t> numbers;
  for (int i = 0; i < 2 * 256; ++i) numbers.insert(Take(greedy));
  const int named = sockets_;
  NumberBlocks other(kNamed);
  Count(other);
  for (int i = 0; i < 2 * 256; ++i) {
    const uint32_t number = Take(other);
    EXPECT_GT(number, 1u);
    EXPECT_LT(number, 0xffff00u);
    EXPECT_TRUE(numbers.insert(number).second);
  }
  EXPECT_EQ(sockets_, named);
}

TEST_F(NumberBlocksTest, NumbersOfTheProcessTakeNoSocket) {
  NumberBlocks blocks;
  Count(blocks);
  std::set<uint32_t> numbers;
  for (int i = 0; i < 2 * 256; ++i) {
    EXPECT_TRUE(numbers.insert(blocks.Take(NumberKind::kOfProcess)).second);
  }
  EXPECT_EQ(sockets_, 0);
  EXPECT_TRUE(numbers.insert(Take(blocks)).second);
  EXPECT_EQ(sockets_, 1);
}

}  // namespace
}  // namespace verbena::soft
