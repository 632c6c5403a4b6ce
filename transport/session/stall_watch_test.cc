#include "transport/session/stall_watch.h"

#include <gtest/gtest.h>

#include <optional>

#include "absl/time/time.h"

namespace verbena::transport {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(20);
constexpr absl::Duration kMoment = absl::Nanoseconds(1);

class StallWatchTest : public testing::Test {
 protected:
  static absl::Time At(absl::Duration time) { return absl::UnixEpoch() + time; }
  bool Tick(absl::Duration time, std::optional<uint64_t> first) {
    return watch_.Tick(At(time), first);
  }

  StallWatch watch_{kLimit};
};

TEST_F(StallWatchTest, HasNothingToSayWhenNothingWaits) {
  EXPECT_FALSE(Tick(absl::ZeroDuration(), std::nullopt));
  EXPECT_FALSE(Tick(10 * kLimit, std::nullopt));
  EXPECT_EQ(watch_.NextTick(), absl::InfiniteFuture());
}

TEST_F(StallWatchTest, TellsWhenTheFirstHasWaitedForTheLimit) {
  EXPECT_FALSE(Tick(kLimit, 7));
  EXPECT_EQ(watch_.NextTick(), At(2 * kLimit));
  EXPECT_FALSE(Tick(2 * kLimit - kMoment, 7));
  EXPECT_TRUE(Tick(2 * kLimit, 7));
}

TEST_F(StallWatchTest, GivesTheNextOneAsLong) {
  EXPECT_FALSE(Tick(absl::ZeroDuration(), 1));
  EXPECT_FALSE(Tick(kLimit - kMoment, 2));
  EXPECT_FALSE(Tick(2 * kLimit - 2 * kMoment, 2));
  EXPECT_TRUE(Tick(2 * kLimit - kMoment, 2));
}

TEST_F(StallWatchTest, CountsAnewWhenSomethingWaitsAgain) {
  EXPECT_FALSE(Tick(absl::ZeroDuration(), 1));
  EXPECT_FALSE(Tick(kLimit - kMoment, std::nullopt));
  EXPECT_FALSE(Tick(kLimit, 1));
  EXPECT_EQ(watch_.NextTick(), At(2 * kLimit));
}

TEST_F(StallWatchTest, WantsAllThatStoodInALineToMoveOn) {
  using Line = std::optional<StallWatch::Line>;
  EXPECT_FALSE(watch_.Tick(At(absl::ZeroDuration()), Line({0, 80})));
  // The line moves on, and others join it.
  EXPECT_FALSE(watch_.Tick(At(kLimit / 2), Line({1, 81})));
  EXPECT_FALSE(watch_.Tick(At(kLimit - kMoment), Line({79, 159})));
  EXPECT_TRUE(watch_.Tick(At(kLimit), Line({79, 159})));
  EXPECT_FALSE(watch_.Tick(At(kLimit), Line({80, 160})));
  EXPECT_EQ(watch_.NextTick(), At(2 * kLimit));
  EXPECT_FALSE(watch_.Tick(At(2 * kLimit), Line()));
  EXPECT_EQ(watch_.NextTick(), absl::InfiniteFuture());
}

TEST_F(StallWatchTest, WaitsForEverIfItIsToldTo) {
  StallWatch patient(absl::InfiniteDuration());
  EXPECT_FALSE(patient.Tick(At(absl::ZeroDuration()), 1));
  EXPECT_FALSE(patient.Tick(At(1000 * kLimit), 1));
  EXPECT_EQ(patient.NextTick(), absl::InfiniteFuture());
}

}  // namespace
}  // namespace verbena::transport
