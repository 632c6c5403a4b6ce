#include "transport/connection/credit_window.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace verbena::transport {
namespace {

constexpr uint32_t kWindow = 8;

TEST(SendCreditsTest, BeginWithTheWholeWindowAndEndAtItsLast) {
  SendCredits credits(kWindow);
  for (uint32_t i = 0; i < kWindow; ++i) {
    EXPECT_EQ(credits.available(), kWindow - i);
    credits.Take();
  }
  EXPECT_EQ(credits.available(), 0u);
}

TEST(SendCreditsTest, GrowByWhatThePeerSays) {
  SendCredits credits(kWindow);
  for (uint32_t i = 0; i < kWindow; ++i) credits.Take();
  EXPECT_TRUE(credits.Update(kWindow + 3));
  EXPECT_EQ(credits.available(), 3u);
}

TEST(SendCreditsTest, StayWhenALimitIsRepeated) {
  SendCredits credits(kWindow);
  credits.Take();
  EXPECT_TRUE(credits.Update(kWindow));
  EXPECT_TRUE(credits.Update(kWindow));
  EXPECT_EQ(credits.available(), kWindow - 1);
}

TEST(SendCreditsTest, RefuseALimitThatGoesBack) {
  SendCredits credits(kWindow);
  credits.Take();
  credits.Take();
  ASSERT_TRUE(credits.Update(kWindow + 2));
  EXPECT_FALSE(credits.Update(kWindow + 1));
  EXPECT_FALSE(credits.Update(0));
  EXPECT_EQ(credits.available(), kWindow);
}

TEST(SendCreditsTest, RefuseALimitBeyondTheWindow) {
  SendCredits credits(kWindow);
  EXPECT_FALSE(credits.Update(kWindow + 1));
  EXPECT_FALSE(credits.Update(UINT32_MAX));
  credits.Take();
  EXPECT_TRUE(credits.Update(kWindow + 1));
  EXPECT_FALSE(credits.Update(kWindow + 2));
  EXPECT_EQ(credits.available(), kWindow);
}

TEST(ReceiveCreditsTest, RefuseTheFrameAfterTheLastCredit) {
  ReceiveCredits credits(kWindow);
  for (uint32_t i = 0; i < kWindow; ++i) EXPECT_TRUE(credits.Receive());
  EXPECT_FALSE(credits.Receive());
  EXPECT_EQ(credits.Advertise(), 2 * kWindow);
  for (uint32_t i = 0; i < kWindow; ++i) EXPECT_TRUE(credits.Receive());
  EXPECT_FALSE(credits.Receive());
}

TEST(ReceiveCreditsTest, AreDueAGrantFromHalfAWindowOn) {
  ReceiveCredits credits(kWindow);
  for (uint32_t i = 0; i < kWindow / 2 - 1; ++i) {
    EXPECT_TRUE(credits.Receive());
    EXPECT_FALSE(credits.GrantDue());
  }
  EXPECT_TRUE(credits.Receive());
  EXPECT_TRUE(credits.GrantDue());
  credits.Advertise();
  EXPECT_FALSE(credits.GrantDue());
}

TEST(ReceiveCreditsTest, AreNeverAdvertisedTwice) {
  ReceiveCredits credits(kWindow);
  EXPECT_TRUE(credits.Receive());
  EXPECT_EQ(credits.Advertise(), kWindow + 1);
  EXPECT_EQ(credits.Advertise(), kWindow + 1);
}

// The totals are modulo 2^32. With a window of almost that size the limit wraps
// after a few frames.
constexpr uint32_t kAlmostAll = UINT32_MAX - 3;

TEST(CreditWindowTest, GoesOnWhenTheTotalsWrap) {
  SendCredits sender(kAlmostAll);
  ReceiveCredits receiver(kAlmostAll);
  for (uint32_t i = 1; i <= 20; ++i) {
    ASSERT_GT(sender.available(), 0u);
    sender.Take();
    ASSERT_TRUE(receiver.Receive());
    const uint32_t limit = receiver.Advertise();
    EXPECT_EQ(limit, kAlmostAll + i);
    ASSERT_TRUE(sender.Update(limit));
    EXPECT_EQ(sender.available(), kAlmostAll);
  }
}

TEST(CreditWindowTest, RefusesLimitsThatGoBackAcrossTheWrap) {
  SendCredits sender(kAlmostAll);
  for (uint32_t i = 0; i < 10; ++i) sender.Take();
  ASSERT_TRUE(sender.Update(kAlmostAll + 10));
  EXPECT_FALSE(sender.Update(kAlmostAll + 9));
  EXPECT_FALSE(sender.Update(kAlmostAll + 11));
  EXPECT_EQ(sender.available(), kAlmostAll);
}

}  // namespace
}  // namespace verbena::transport
