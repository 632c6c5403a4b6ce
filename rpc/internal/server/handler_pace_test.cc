#include "rpc/internal/server/handler_pace.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace verbena::internal {
namespace {

constexpr uint64_t kQuick = HandlerPace::kQuickCycles;
constexpr uint64_t kSlow = HandlerPace::kQuickCycles + 1;

// A counter of cycles that stands still unless told otherwise.
class HandlerPaceTest : public testing::Test {
 protected:
  void Note(uint64_t cycles) { pace_.NoteTime(cycles, now_); }
  // How many quick calls make the method short.
  int Prove() {
    int calls = 0;
    for (; !pace_.is_short(); ++calls) Note(kQuick);
    return calls;
  }

  HandlerPace pace_;
  uint64_t now_ = uint64_t{1} << 40;
};

TEST_F(HandlerPaceTest, QuickCallsProveAMethodToBeShort) {
  EXPECT_FALSE(pace_.is_short());
  EXPECT_EQ(Prove(), HandlerPace::kFirstProof);
}

TEST_F(HandlerPaceTest, ASlowCallMakesTheProofBeginAnew) {
  for (int i = 1; i < HandlerPace::kFirstProof; ++i) Note(kQuick);
  Note(kSlow);
  EXPECT_EQ(Prove(), HandlerPace::kFirstProof);
}

TEST_F(HandlerPaceTest, OneSlowCallIsForgiven) {
  Prove();
  Note(kSlow);
  EXPECT_TRUE(pace_.is_short());
  for (int i = 0; i < HandlerPace::kForgiven; ++i) Note(kQuick);
  Note(kSlow);
  EXPECT_TRUE(pace_.is_short());
}

TEST_F(HandlerPaceTest, TwoCloseTogetherAreNot) {
  Prove();
  Note(kSlow);
  for (int i = 1; i < HandlerPace::kForgiven; ++i) Note(kQuick);
  Note(kSlow);
  EXPECT_FALSE(pace_.is_short());
}

TEST_F(HandlerPaceTest, ACallFoundAsleepIsNot) {
  Prove();
  pace_.NoteBlocked(now_);
  EXPECT_FALSE(pace_.is_short());
}

TEST_F(HandlerPaceTest, TheProofGrowsEachTimeUpToABound) {
  Prove();
  int expected = HandlerPace::kFirstProof;
  while (expected < HandlerPace::kLongestProof) {
    pace_.NoteBlocked(now_);
    // The call that was found asleep returns.
    Note(kSlow);
    expected *= HandlerPace::kProofGrowth;
    EXPECT_EQ(Prove(), expected);
  }
  pace_.NoteBlocked(now_);
  EXPECT_EQ(Prove(), HandlerPace::kLongestProof);
}

TEST_F(HandlerPaceTest, AMethodThatWasShortForLongBeginsAnew) {
  for (int i = 0; i < 5; ++i) {
    Prove();
    now_ += HandlerPace::kLongCycles;
    pace_.NoteBlocked(now_);
    EXPECT_EQ(Prove(), HandlerPace::kFirstProof * HandlerPace::kProofGrowth);
  }
}

}  // namespace
}  // namespace verbena::internal
