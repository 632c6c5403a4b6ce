#include "rpc/internal/service/retry_throttle.h"

#include <gtest/gtest.h>

#include "rpc/internal/service/service_config.h"

namespace verbena::internal {
namespace {

TEST(RetryThrottleTest, WithoutABoundAllFailuresMayBeTriedAgain) {
  RetryThrottle throttle;
  throttle.Configure(nullptr);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(throttle.NoteFailure());
  EXPECT_TRUE(throttle.allows());
}

TEST(RetryThrottleTest, MoreThanHalfOfTheTokensMustBeThere) {
  constexpr RetryThrottling kBounds = {.max_tokens = 4000, .token_ratio = 1000};
  RetryThrottle throttle;
  throttle.Configure(&kBounds);
  EXPECT_TRUE(throttle.NoteFailure());   // 3 of 4.
  EXPECT_FALSE(throttle.NoteFailure());  // 2.
  throttle.NoteSuccess();
  EXPECT_TRUE(throttle.allows());
  for (int i = 0; i < 10; ++i) throttle.NoteSuccess();
  EXPECT_TRUE(throttle.NoteFailure());
  EXPECT_FALSE(throttle.NoteFailure());
  for (int i = 0; i < 10; ++i) throttle.NoteFailure();
  throttle.NoteSuccess();
  throttle.NoteSuccess();
  EXPECT_FALSE(throttle.allows());
  throttle.NoteSuccess();
  EXPECT_TRUE(throttle.allows());
}

TEST(RetryThrottleTest, FractionsOfATokenAddUpExactly) {
  // Five times 0.2 is a little more than 1 if it is added up in binary.
  constexpr RetryThrottling kBounds = {.max_tokens = 8000, .token_ratio = 200};
  RetryThrottle throttle;
  throttle.Configure(&kBounds);
  for (int i = 0; i < 4; ++i) throttle.NoteFailure();
  for (int i = 0; i < 5; ++i) throttle.NoteSuccess();
  EXPECT_FALSE(throttle.NoteFailure());
}

TEST(RetryThrottleTest, AnotherConfigKeepsThePartThatIsMissing) {
  constexpr RetryThrottling kFew = {.max_tokens = 4000, .token_ratio = 1000};
  constexpr RetryThrottling kMany = {.max_tokens = 40'000, .token_ratio = 1000};
  RetryThrottle throttle;
  throttle.Configure(&kFew);
  throttle.NoteFailure();
  throttle.Configure(&kMany);  // 30 of 40.
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(throttle.NoteFailure());
  EXPECT_FALSE(throttle.NoteFailure());
}

}  // namespace
}  // namespace verbena::internal
