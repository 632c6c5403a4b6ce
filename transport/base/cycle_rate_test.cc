#include "transport/base/cycle_rate.h"

#include <algorithm>
#include <cstdint>

#include "gtest/gtest.h"
#include "transport/base/clock.h"
#include "transport/base/cycle_counter.h"

namespace verbena::base {
namespace {

TEST(CycleRateTest, ScalesWhatItWasTold) {
  const CycleRate rate(1000, 2500);
  EXPECT_EQ(rate.Nanos(0), 0u);
  EXPECT_NEAR(rate.Nanos(5000), 2000, 1);
  // A day, without an overflow.
  EXPECT_NEAR(rate.Nanos(uint64_t{216} * 1'000'000'000'000), 864e11, 1e6);
}

TEST(CycleRateTest, AgreesWithTheClock) {
  const CycleRate& rate = CycleRate::OfMachine();
  const int64_t before = NowNanos();
  const uint64_t first = CycleNow();
  while (NowNanos() - before < 2'000'000) {
  }
  const uint64_t cycles = CycleNow() - first;
  const int64_t nanos = NowNanos() - before;
  // At most the measurement itself was interrupted.
  EXPECT_NEAR(rate.Nanos(cycles), nanos, 0.2 * static_cast<double>(nanos));
}

}  // namespace
}  // namespace verbena::base
