#include "rpc/resolvers/dns_schedule.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"

namespace verbena::internal {
namespace {

constexpr absl::Duration kSecond = absl::Seconds(1);

// A clock that starts at 1,000 seconds, and the defaults.
class DnsScheduleTest : public testing::Test {
 protected:
  // A look of one second.
  void Answer(absl::Duration ttl) {
    schedule_.OnStart(now_);
    now_ += kSecond;
    schedule_.OnAnswer(now_, ttl);
  }
  absl::Duration Fail(double jitter = 0) {
    schedule_.OnStart(now_);
    now_ += kSecond;
    return schedule_.OnFailure(now_, jitter);
  }
  absl::Duration Wait() const { return schedule_.next() - now_; }

  absl::Time now_ = absl::FromUnixSeconds(1000);
  DnsSchedule schedule_{DnsOptions()};
};

TEST_F(DnsScheduleTest, LooksAtOnce) { EXPECT_LE(schedule_.next(), now_); }

TEST_F(DnsScheduleTest, LooksAgainWhenTheLeastTtlHasPassed) {
  Answer(absl::Seconds(300));
  EXPECT_EQ(Wait(), absl::Seconds(300));
}

TEST_F(DnsScheduleTest, CountsTheLeastIntervalFromTheStartOfALook) {
  Answer(absl::ZeroDuration());
  EXPECT_EQ(Wait(), absl::Seconds(29));
}

TEST_F(DnsScheduleTest, GrantsAWishAsSoonAsTheIntervalAllows) {
  Answer(absl::Seconds(300));
  schedule_.OnWish();
  EXPECT_EQ(Wait(), absl::Seconds(29));
}

TEST_F(DnsScheduleTest, GrantsAWishAtOnceIfTheIntervalHasPassed) {
  Answer(absl::Seconds(300));
  now_ += absl::Seconds(100);
  schedule_.OnWish();
  EXPECT_LE(Wait(), absl::ZeroDuration());
}

TEST_F(DnsScheduleTest, DoesNotPutALookOffForAWish) {
  DnsSchedule schedule({.min_interval = absl::Seconds(30)});
  schedule.OnStart(now_);
  schedule.OnAnswer(now_ + absl::Seconds(29), absl::Seconds(2));
  const absl::Time before = schedule.next();
  EXPECT_EQ(before, now_ + absl::Seconds(31));
  schedule.OnWish();
  EXPECT_EQ(schedule.next(), now_ + absl::Seconds(30));
}

TEST_F(DnsScheduleTest, IgnoresWishesDuringALook) {
  schedule_.OnStart(now_);
  schedule_.OnWish();
  EXPECT_EQ(schedule_.next(), absl::InfiniteFuture());
}

TEST_F(DnsScheduleTest, IgnoresWishesDuringAPause) {
  Fail();
  for (int i = 0; i < 5; ++i) Fail();
  const absl::Time before = schedule_.next();
  schedule_.OnWish();
  EXPECT_EQ(schedule_.next(), before);
}

TEST_F(DnsScheduleTest, PausesLongerAfterEachFailureUpToTheLongest) {
  EXPECT_EQ(Fail(), absl::Seconds(1));
  EXPECT_EQ(Wait(), absl::Seconds(1));
  EXPECT_EQ(Fail(), absl::Seconds(1.6));
  EXPECT_EQ(Fail(), absl::Seconds(1.6) * 1.6);
  for (int i = 0; i < 20; ++i) Fail();
  EXPECT_EQ(Fail(), absl::Seconds(120));
}

TEST_F(DnsScheduleTest, PausesAFifthLongerOrShorter) {
  EXPECT_EQ(Fail(/*jitter=*/1), absl::Seconds(1.2));
  EXPECT_EQ(Fail(/*jitter=*/-1), absl::Seconds(1.6) * 0.8);
}

TEST_F(DnsScheduleTest, BeginsThePausesAnewAfterAnAnswer) {
  for (int i = 0; i < 5; ++i) Fail();
  Answer(absl::Seconds(300));
  EXPECT_EQ(Fail(), absl::Seconds(1));
}

}  // namespace
}  // namespace verbena::internal
