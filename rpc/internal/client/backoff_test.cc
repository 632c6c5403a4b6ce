#include "rpc/internal/client/backoff.h"

#include <cstdint>
#include <set>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace verbena::internal {
namespace {

constexpr uint64_t kSeed = 1;

constexpr absl::Duration kAlone = absl::ZeroDuration();

void ExpectAbout(absl::Duration pause, absl::Duration expected) {
  EXPECT_GE(pause, expected * 0.8);
  EXPECT_LE(pause, expected * 1.2);
}

TEST(BackoffTest, DoublesUpToTheMaximum) {
  Backoff backoff(absl::Milliseconds(50), absl::Milliseconds(150), kSeed);
  ExpectAbout(backoff.Next(false, kAlone), absl::Milliseconds(50));
  ExpectAbout(backoff.Next(false, kAlone), absl::Milliseconds(100));
  ExpectAbout(backoff.Next(false, kAlone), absl::Milliseconds(150));
  ExpectAbout(backoff.Next(false, kAlone), absl::Milliseconds(150));
}

TEST(BackoffTest, SuccessStartsOver) {
  Backoff backoff(absl::Milliseconds(50), absl::Seconds(5), kSeed);
  backoff.Next(false, kAlone);
  backoff.Next(false, kAlone);
  backoff.Reset();
  ExpectAbout(backoff.Next(false, kAlone), absl::Milliseconds(50));
}

// A server that was away for an hour, too.
TEST(BackoffTest, WhatCostsNothingIsTriedAgainWithinASecond) {
  Backoff backoff(absl::Milliseconds(50), absl::Minutes(1), kSeed);
  for (absl::Duration away; away < absl::Hours(1);) {
    const absl::Duration pause = backoff.Next(true, kAlone);
    EXPECT_LT(pause, absl::Seconds(1));
    away += pause;
  }
  // Other failures have their own measure.
  ExpectAbout(backoff.Next(false, kAlone), absl::Minutes(1));
}

TEST(BackoffTest, NeverPausesLongerThanItIsTold) {
  Backoff backoff(absl::Milliseconds(1), absl::Milliseconds(2), kSeed);
  for (int i = 0; i < 10; ++i) {
    EXPECT_LE(backoff.Next(true, kAlone), absl::Milliseconds(2) * 1.2);
  }
}

TEST(BackoffTest, AThousandClientsDoNotComeTogether) {
  std::set<absl::Duration> pauses;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Backoff backoff(absl::Milliseconds(50), absl::Seconds(5), seed);
    pauses.insert(
        absl::Floor(backoff.Next(true, kAlone), absl::Milliseconds(1)));
  }
  EXPECT_GE(pauses.size(), 15u);
}

TEST(BackoffTest, ACrowdTakesTurns) {
  BackoffCrowd crowd;
  EXPECT_EQ(crowd.LeastPause(), absl::ZeroDuration());
  for (int i = 0; i < 1000; ++i) crowd.Enter();
  Backoff backoff(absl::Milliseconds(50), absl::Milliseconds(100), kSeed);
  // All together, 1000 attempts in the time of 1000 intervals.
  ExpectAbout(backoff.Next(true, crowd.LeastPause()),
              1000 * BackoffCrowd::kAttemptInterval);
  for (int i = 0; i < 1000; ++i) crowd.Leave();
  EXPECT_EQ(crowd.LeastPause(), absl::ZeroDuration());
}

}  // namespace
}  // namespace verbena::internal
