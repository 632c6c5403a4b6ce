// The credits of a connection: its two ends, and all that is under way.

#ifndef VERBENA_TESTS_MODEL_CREDITS_MODEL_H_
#define VERBENA_TESTS_MODEL_CREDITS_MODEL_H_

#include <cstdint>

#include "tests/model/exploration.h"

namespace verbena::model {

// Rules of "Credits" in frame.h. A model breaks one of them, to see that this
// is found.
enum class CreditRule : uint8_t {
  kNone,
  kFrameTakesCredit,     // No frame is sent without a credit.
  kGrantWaitsForBit,     // No second GRANT before kFlagGrantRead has changed.
  kGrantReadIsSaid,      // Every header says which GRANTs were read.
  kGrantNeedsNoCredit,   // GRANT goes without a credit.
  kGrantIsDue,           // GRANT is sent when half of the window is owed.
  kGrantHasNews,         // GRANT is sent only when something is owed.
  kLimitNeverGoesBack,   // A header has the limit of the moment.
  kReceivesComeFirst,    // Receives are posted before they are granted.
  kToldCreditsStay,      // A credit of which the peer knows is not taken back.
  kReturnShrinksWindow,  // The peer of a RETURN owes so many fewer.
  kReturnTakesACredit,   // RETURN gives back what is left beside its own.
  kWindowIsBounded,      // No more than kCredits at once.
};

// Each number is one side's; the client's and the server's.
struct CreditBounds {
  uint8_t frames[2];  // Frames of calls, which ask for credits.
  uint8_t pings[2];   // Frames that wait for a credit without asking for one.
  uint8_t pauses[2];  // Seconds without traffic.
  uint8_t spare[2];   // Receives that it may post beyond those of idle ones.
  // To see that it comes to that: a window of so many counts as wrong.
  uint8_t sought_window = 0;
};

// Explores what CreditFlow and CreditRules do at both ends.
Exploration ExploreCredits(const CreditBounds& bounds,
                           CreditRule broken = CreditRule::kNone);

}  // namespace verbena::model

#endif  // VERBENA_TESTS_MODEL_CREDITS_MODEL_H_
