#include "tests/model/credits_model.h"

#include <gtest/gtest.h>

#include "tests/model/command_line.h"

namespace verbena::model {
namespace {

TEST(CreditsTest, BothSidesSend) {
  const uint8_t frames = Bound("frames", 3, 5);
  const uint8_t pings = Bound("pings", 1, 1);
  const uint8_t spare = Bound("spare", 7, 7);
  ExpectRight("credits, both send", ExploreCredits({.frames = {frames, frames},
                                                    .pings = {pings, 0},
                                                    .pauses = {0, 0},
                                                    .spare = {spare, spare}}));
}

TEST(CreditsTest, OneSideSends) {
  const uint8_t frames = Bound("frames_of_one", 5, 8);
  const uint8_t pauses = Bound("pauses_of_one", 1, 2);
  ExpectRight("credits, one sends", ExploreCredits({.frames = {frames, 0},
                                                    .pings = {1, 1},
                                                    .pauses = {pauses, pauses},
                                                    .spare = {7, 0}}));
}

TEST(CreditsTest, CreditsGoBack) {
  const uint8_t frames = Bound("frames_between", 2, 3);
  const uint8_t pauses = Bound("pauses", 1, 2);
  ExpectRight("credits that go back",
              ExploreCredits({.frames = {frames, frames},
                              .pings = {0, 0},
                              .pauses = {pauses, pauses},
                              .spare = {7, 7}}));
}

TEST(CreditsTest, AWindowGrowsToEight) {
  ExpectWrong("the sought window", ExploreCredits({.frames = {10, 0},
                                                   .pings = {0, 0},
                                                   .pauses = {0, 0},
                                                   .spare = {0, 7},
                                                   .sought_window = 8}));
}

// Each rule is needed: without it, this goes wrong.
struct Broken {
  CreditRule rule;
  CreditBounds bounds;
  const char* wrong;
};

constexpr CreditBounds kBoth = {
    .frames = {3, 3}, .pings = {1, 0}, .pauses = {0, 0}, .spare = {7, 7}};
constexpr CreditBounds kOne = {
    .frames = {10, 0}, .pings = {0, 0}, .pauses = {0, 0}, .spare = {0, 7}};
constexpr CreditBounds kPauses = {
    .frames = {4, 1}, .pings = {0, 0}, .pauses = {1, 1}, .spare = {7, 7}};

class BrokenCreditsTest : public testing::TestWithParam<Broken> {};

TEST_P(BrokenCreditsTest, IsFound) {
  ExpectWrong(GetParam().wrong,
              ExploreCredits(GetParam().bounds, GetParam().rule));
}

INSTANTIATE_TEST_SUITE_P(
    Rules, BrokenCreditsTest,
    testing::Values(
        Broken{CreditRule::kFrameTakesCredit, kBoth, "no receive"},
        Broken{CreditRule::kGrantWaitsForBit, kOne, "out of turn"},
        Broken{CreditRule::kGrantReadIsSaid, kBoth, "nothing can be done"},
        Broken{CreditRule::kGrantNeedsNoCredit, kBoth, "nothing can be done"},
        Broken{CreditRule::kGrantIsDue, kBoth, "nothing can be done"},
        Broken{CreditRule::kGrantHasNews, kBoth, "out of turn"},
        Broken{CreditRule::kLimitNeverGoesBack, kBoth, "went back"},
        Broken{CreditRule::kReceivesComeFirst, kOne, "no receive"},
        Broken{CreditRule::kToldCreditsStay, kPauses, "went back"},
        Broken{CreditRule::kReturnShrinksWindow, kPauses,
               "nothing can be done"},
        Broken{CreditRule::kReturnTakesACredit, kPauses, "did not have"},
        Broken{CreditRule::kWindowIsBounded, kBoth, "beyond its window"}));

}  // namespace
}  // namespace verbena::model
