#include "transport/session/credit_window.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace verbena::transport {
namespace {

constexpr uint32_t kWindow = 8;

TEST(SendCreditsTest, BeginWithTheWholeWindowAndEndAtItsLast) {
  SendCredits credits(kWindow, kWindow);
  for (uint32_t i = 0; i < kWindow; ++i) {
    EXPECT_EQ(credits.available(), kWindow - i);
    credits.Take();
  }
  EXPECT_EQ(credits.available(), 0u);
}

TEST(SendCreditsTest, GrowByWhatThePeerSays) {
  SendCredits credits(kWindow, kWindow);
  for (uint32_t i = 0; i < kWindow; ++i) credits.Take();
  EXPECT_TRUE(credits.Update(kWindow + 3));
  EXPECT_EQ(credits.available(), 3u);
}

TEST(SendCreditsTest, StayWhenALimitIsRepeated) {
  SendCredits credits(kWindow, kWindow);
  credits.Take();
  EXPECT_TRUE(credits.Update(kWindow));
  EXPECT_TRUE(credits.Update(kWindow));
  EXPECT_EQ(credits.available(), kWindow - 1);
}

TEST(SendCreditsTest, RefuseALimitThatGoesBack) {
  SendCredits credits(kWindow, kWindow);
  credits.Take();
  credits.Take();
  ASSERT_TRUE(credits.Update(kWindow + 2));
  EXPECT_FALSE(credits.Update(kWindow + 1));
  EXPECT_FALSE(credits.Update(0));
  EXPECT_EQ(credits.available(), kWindow);
}

TEST(SendCreditsTest, RefuseALimitBeyondTheWindow) {
  SendCredits credits(kWindow, kWindow);
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

TEST(SendCreditsTest, MayGrowBeyondTheFirstOnes) {
  SendCredits credits(/*initial=*/1, /*largest=*/kWindow);
  EXPECT_TRUE(credits.Update(kWindow));
  EXPECT_EQ(credits.available(), kWindow);
  EXPECT_FALSE(credits.Update(kWindow + 1));
}

TEST(SendCreditsTest, ReserveAShareOfTheMostThatThereWere) {
  SendCredits credits(/*initial=*/1, /*largest=*/kWindow);
  EXPECT_EQ(credits.Share(2), 0u);
  ASSERT_TRUE(credits.Update(kWindow));
  EXPECT_EQ(credits.Share(2), kWindow / 2);
  for (uint32_t i = 0; i < kWindow; ++i) credits.Take();
  EXPECT_EQ(credits.Share(2), kWindow / 2);
}

TEST(SendCreditsTest, ForgetWhatWasGivenBack) {
  SendCredits credits(kWindow, kWindow);
  credits.GiveBack(kWindow - 1);
  EXPECT_EQ(credits.available(), 1u);
  EXPECT_EQ(credits.Share(2), 0u);
  credits.Take();
  EXPECT_EQ(credits.sent(), kWindow);
}

TEST(ReceiveCreditsTest, AreDueAGrantOfATinyWindowOnlyWhenNoneIsLeft) {
  for (uint32_t window = 1; window < 4; ++window) {
    ReceiveCredits credits(window);
    for (uint32_t i = 0; i < window; ++i) {
      EXPECT_FALSE(credits.GrantDue());
      EXPECT_TRUE(credits.Receive());
    }
    EXPECT_TRUE(credits.GrantDue());
  }
}

TEST(ReceiveCreditsTest, GrowWithTheirWindow) {
  ReceiveCredits credits(1);
  credits.Grow(kWindow - 1);
  EXPECT_TRUE(credits.GrantDue());
  EXPECT_EQ(credits.outstanding(), 1u);
  EXPECT_EQ(credits.Advertise(), kWindow);
  EXPECT_EQ(credits.outstanding(), kWindow);
}

TEST(ReceiveCreditsTest, ShrinkByWhatIsGivenBack) {
  ReceiveCredits credits(kWindow);
  ASSERT_TRUE(credits.Receive());  // The RETURN itself.
  ASSERT_TRUE(credits.Return(kWindow - 1));
  EXPECT_EQ(credits.window(), 1u);
  EXPECT_EQ(credits.outstanding(), 0u);
  EXPECT_TRUE(credits.GrantDue());
  EXPECT_EQ(credits.Advertise(), kWindow + 1);
}

TEST(ReceiveCreditsTest, RefuseMoreBackThanThePeerHas) {
  ReceiveCredits credits(kWindow);
  ASSERT_TRUE(credits.Receive());
  EXPECT_FALSE(credits.Return(kWindow));
  EXPECT_FALSE(credits.Return(UINT32_MAX));
  EXPECT_EQ(credits.window(), kWindow);
  EXPECT_EQ(credits.outstanding(), kWindow - 1);
}

TEST(ReceiveCreditsTest, ShrinkToWhatThePeerKnowsOf) {
  ReceiveCredits credits(kWindow);
  ASSERT_TRUE(credits.Receive());
  ASSERT_TRUE(credits.Receive());
  EXPECT_EQ(credits.ShrinkToOutstanding(1), 2u);
  EXPECT_EQ(credits.window(), kWindow - 2);
  EXPECT_EQ(credits.ShrinkToOutstanding(1), 0u);
  // The limit does not go back.
  EXPECT_EQ(credits.Advertise(), kWindow);
  while (credits.Receive()) {
  }
  EXPECT_EQ(credits.ShrinkToOutstanding(1), kWindow - 3);
  EXPECT_EQ(credits.window(), 1u);
}

TEST(GrantTurnsTest, AllowOneGrantAtATime) {
  GrantTurns granter;
  GrantTurns reader;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(granter.may_send());
    granter.Sent();
    EXPECT_FALSE(granter.may_send());
    // A frame from before it was read.
    EXPECT_TRUE(granter.Acknowledge(reader.Say()));
    EXPECT_FALSE(granter.may_send());
    EXPECT_TRUE(reader.Receive());
    EXPECT_TRUE(granter.Acknowledge(reader.Say()));
  }
}

TEST(GrantTurnsTest, RefuseAGrantOutOfTurn) {
  GrantTurns reader;
  EXPECT_TRUE(reader.Receive());
  EXPECT_FALSE(reader.Receive());
  reader.Say();
  EXPECT_TRUE(reader.Receive());
}

TEST(GrantTurnsTest, RefuseWhatCannotHaveBeenRead) {
  GrantTurns granter;
  EXPECT_FALSE(granter.Acknowledge(true));
  granter.Sent();
  EXPECT_TRUE(granter.Acknowledge(true));
  EXPECT_FALSE(granter.Acknowledge(false));
}

// The totals are modulo 2^32. With a window of almost that size the limit wraps
// after a few frames.
constexpr uint32_t kAlmostAll = UINT32_MAX - 3;

TEST(CreditWindowTest, GoesOnWhenTheTotalsWrap) {
  SendCredits sender(kAlmostAll, kAlmostAll);
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
  SendCredits sender(kAlmostAll, kAlmostAll);
  for (uint32_t i = 0; i < 10; ++i) sender.Take();
  ASSERT_TRUE(sender.Update(kAlmostAll + 10));
  EXPECT_FALSE(sender.Update(kAlmostAll + 9));
  EXPECT_FALSE(sender.Update(kAlmostAll + 11));
  EXPECT_EQ(sender.available(), kAlmostAll);
}

}  // namespace
}  // namespace verbena::transport
