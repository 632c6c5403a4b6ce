#include "transport/connection/credit_window.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace verbena::transport {
namespace {

constexpr uint32_t kWindow = 8;

// Sends and receives `frames`, each side keeping up with the other.
void RunFrames(uint32_t frames, SendCredits* sender, ReceiveCredits* receiver) {
  for (uint32_t i = 0; i < frames; ++i) {
    ASSERT_GT(sender->available(), 0u);
    sender->Take();
    ASSERT_TRUE(receiver->Receive());
    if (receiver->GrantDue()) {
      ASSERT_TRUE(sender->Update(receiver->Advertise()));
    }
  }
}

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

// The totals are modulo 2^32. A window of half the numbers gets there in three
// steps.
TEST(CreditWindowTest, GoesOnWhenTheTotalsWrap) {
  constexpr uint32_t kHuge = uint32_t{1} << 16;
  SendCredits sender(kHuge);
  ReceiveCredits receiver(kHuge);
  // 2^32 frames and some more, in batches of a whole window.
  for (uint32_t batch = 0; batch < (uint32_t{1} << 16) + 2; ++batch) {
    if (batch >= 2 && batch < (uint32_t{1} << 16) - 2) {
      // What lies between the beginning and the wrap is all the same: only the
      // totals move.
      for (uint32_t i = 0; i < kHuge; i += kHuge / 4) {
        for (uint32_t k = 0; k < kHuge / 4; ++k) {
          sender.Take();
          receiver.Receive();
        }
        ASSERT_TRUE(sender.Update(receiver.Advertise()));
      }
      continue;
    }
    RunFrames(kHuge, &sender, &receiver);
    if (HasFatalFailure()) return;
  }
}

TEST(CreditWindowTest, RefusesNonsenseOnBothSidesOfTheWrap) {
  // Brings the totals to just before the wrap by a window that large.
  constexpr uint32_t kHuge = uint32_t{1} << 31;
  SendCredits credits(kHuge);
  EXPECT_FALSE(credits.Update(kHuge + 1));
  EXPECT_FALSE(credits.Update(0));
  EXPECT_TRUE(credits.Update(kHuge));
}

}  // namespace
}  // namespace verbena::transport
