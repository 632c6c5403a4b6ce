#include "rpc/internal/client/reply_sizes.h"

#include "gtest/gtest.h"

namespace verbena::internal {
namespace {

TEST(ReplySizesTest, GuessesNothingForAMethodNeverCalled) {
  EXPECT_EQ(ReplySizes().Guess(7), 0u);
}

TEST(ReplySizesTest, GuessesTheLargestLately) {
  ReplySizes sizes;
  sizes.Learn(7, 100000);
  EXPECT_EQ(sizes.Guess(7), 100000u);
  sizes.Learn(7, 200000);
  sizes.Learn(7, 190000);
  EXPECT_EQ(sizes.Guess(7), 190000u);
}

TEST(ReplySizesTest, ForgetsALargeReplySlowly) {
  ReplySizes sizes;
  sizes.Learn(7, 1 << 20);
  sizes.Learn(7, 10);
  EXPECT_GT(sizes.Guess(7), 900000u);
  for (int i = 0; i < 100; ++i) sizes.Learn(7, 10);
  EXPECT_LT(sizes.Guess(7), 100u);
}

TEST(ReplySizesTest, MethodsThatShareAnEntryPushEachOtherOut) {
  ReplySizes sizes;
  sizes.Learn(7, 100000);
  sizes.Learn(7 + 64, 5);
  EXPECT_EQ(sizes.Guess(7), 0u);
  EXPECT_EQ(sizes.Guess(7 + 64), 5u);
}

}  // namespace
}  // namespace verbena::internal
