#include "transport/soft/base/clock.h"

#include <gtest/gtest.h>

#include <chrono>

namespace verbena::soft {
namespace {

using std::chrono::seconds;

TEST(ClockTest, TheSteadyClockIsThatOfTheMachine) {
  const Clock clock(Clock::Kind::kSteady);
  const auto before = std::chrono::steady_clock::now();
  const auto now = clock.Now();
  EXPECT_GE(now, before);
  EXPECT_LE(now, std::chrono::steady_clock::now());
}

TEST(ClockTest, AManualClockMovesForwardWhenItIsTold) {
  Clock clock(Clock::Kind::kManual);
  const auto start = clock.Now();
  EXPECT_EQ(clock.Now(), start);
  clock.MoveTo(start + seconds(4));
  EXPECT_EQ(clock.Now(), start + seconds(4));
  clock.MoveTo(start + seconds(2));
  EXPECT_EQ(clock.Now(), start + seconds(4));
}

}  // namespace
}  // namespace verbena::soft
