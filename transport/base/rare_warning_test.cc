#include "transport/base/rare_warning.h"

#include <gtest/gtest.h>

namespace verbena::base {
namespace {

TEST(RareWarningTest, SaysOneLineAndThenNothingForAWhile) {
  RareWarning warning, other;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 100; ++i) warning.Say("out of something");
  other.Say("out of something else");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "verbena: out of something\nverbena: out of something else\n");
}

}  // namespace
}  // namespace verbena::base
