#include "transport/base/check.h"

#include <gtest/gtest.h>

namespace verbena::base {
namespace {

TEST(CheckTest, PassesSilently) {
  CHECK(true) << "never shown";
  CHECK_EQ(1, 1);
  CHECK_LT(1, 2) << "nor this";
}

TEST(CheckDeathTest, PrintsThePlaceTheConditionAndTheMessage) {
  const int slots = 3;
  EXPECT_DEATH(CHECK(slots > 4) << "slots=" << slots,
               "check_test.cc:[0-9]+: Check failed: slots > 4 slots=3");
  EXPECT_DEATH(CHECK_EQ(slots, 4), "3 vs 4");
}

}  // namespace
}  // namespace verbena::base
