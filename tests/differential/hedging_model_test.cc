// Hedging as gRPC's proposal A6 has it. gRPC C++ has none to compare with.

#include "tests/differential/hedging_model.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/differential/peer.h"
#include "tests/differential/schedule.h"
#include "tests/testing/seed_range.h"

namespace verbena::differential {
namespace {

class HedgingTest : public testing::Test {
 public:
  explicit HedgingTest(const testing_support::SeedRange& range)
      : range_(range) {}

  // On a busy machine a delay may pass before an attempt has answered: such a
  // schedule may try again with longer ones.
  void TestBody() override {
    constexpr int kPatience[] = {1, 5, 25};
    const std::unique_ptr<Peer> verbena = NewVerbenaPeer();
    const absl::Time end = absl::Now() + range_.longest;
    uint64_t done = 0;
    uint64_t again = 0;
    for (; done < range_.count && absl::Now() < end; ++done) {
      HedgingSchedule hedging;
      Outcome by_text;
      Outcome outcome;
      for (const int patience : kPatience) {
        hedging = DrawHedging(range_.first + done, patience);
        by_text = OutcomeByA6(hedging);
        outcome = verbena->Run(hedging.schedule);
        if (outcome == by_text) break;
        ++again;
      }
      EXPECT_EQ(absl::StrJoin(by_text, "\n"), absl::StrJoin(outcome, "\n"))
          << ToString(hedging.schedule);
    }
    std::printf("%s schedules, %s runs with longer delays\n",
                absl::StrCat(done).c_str(), absl::StrCat(again).c_str());
  }

 private:
  const testing_support::SeedRange range_;
};

}  // namespace

void RegisterTests(const testing_support::SeedRange& range) {
  testing::RegisterTest(
      "HedgingModelTest", "VerbenaDoesAsTheTextHasIt", nullptr, nullptr,
      __FILE__, __LINE__,
      [range]() -> testing::Test* { return new HedgingTest(range); });
}

}  // namespace verbena::differential

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  verbena::differential::RegisterTests(
      verbena::testing_support::ParseSeedRange(argc, argv));
  return RUN_ALL_TESTS();
}
