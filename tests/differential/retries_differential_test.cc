// Retries and service configs of Verbena beside those of gRPC C++.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/differential/differences.h"
#include "tests/differential/peer.h"
#include "tests/differential/schedule.h"
#include "tests/testing/seed_range.h"

namespace verbena::differential {
namespace {

struct Outcomes {
  Outcome grpc;
  Outcome verbena;
};

// Both run at the same time, because both mostly wait.
class Peers {
 public:
  Outcomes Run(const Schedule& schedule) {
    Outcomes outcomes;
    std::thread other([&] { outcomes.grpc = grpc_->Run(schedule); });
    outcomes.verbena = verbena_->Run(schedule);
    other.join();
    return outcomes;
  }

 private:
  const std::unique_ptr<Peer> grpc_ = NewGrpcPeer();
  const std::unique_ptr<Peer> verbena_ = NewVerbenaPeer();
};

class ScheduleTest : public testing::Test {
 public:
  explicit ScheduleTest(const testing_support::SeedRange& range)
      : range_(range) {}

  // A near deadline may pass too early on a busy machine: such a schedule may
  // try again with longer ones.
  void TestBody() override {
    constexpr int kPatience[] = {1, 5, 25};
    const absl::Time end = absl::Now() + range_.longest;
    uint64_t done = 0;
    uint64_t again = 0;
    for (; done < range_.count && absl::Now() < end; ++done) {
      Schedule schedule;
      Outcomes outcomes;
      for (const int patience : kPatience) {
        schedule = DrawSchedule(range_.first + done, patience);
        outcomes = peers_.Run(schedule);
        if (outcomes.grpc == outcomes.verbena || !schedule.ends_by_deadline) {
          break;
        }
        ++again;
      }
      EXPECT_EQ(absl::StrJoin(outcomes.grpc, "\n"),
                absl::StrJoin(outcomes.verbena, "\n"))
          << ToString(schedule);
    }
    std::printf("%s schedules, %s runs with longer deadlines\n",
                absl::StrCat(done).c_str(), absl::StrCat(again).c_str());
  }

 private:
  const testing_support::SeedRange range_;
  Peers peers_;
};

class DifferencesTest : public testing::Test {
 public:
  void TestBody() override {
    Peers peers;
    for (const ScheduleDifference& difference : ScheduleDifferences()) {
      const Outcomes outcomes = peers.Run(difference.schedule);
      EXPECT_EQ(absl::StrJoin(outcomes.grpc, "\n"),
                absl::StrJoin(difference.grpc, "\n"))
          << difference.reason;
      EXPECT_EQ(absl::StrJoin(outcomes.verbena, "\n"),
                absl::StrJoin(difference.verbena, "\n"))
          << difference.reason;
    }
  }
};

}  // namespace

void RegisterTests(const testing_support::SeedRange& range) {
  testing::RegisterTest(
      "RetriesDifferentialTest", "BothDoTheSameWithASchedule", nullptr, nullptr,
      __FILE__, __LINE__,
      [range]() -> testing::Test* { return new ScheduleTest(range); });
  if (range.count == 1) return;
  testing::RegisterTest("RetriesDifferentialTest",
                        "TheKnownDifferencesAreThere", nullptr, nullptr,
                        __FILE__, __LINE__,
                        []() -> testing::Test* { return new DifferencesTest; });
}

}  // namespace verbena::differential

int main(int argc, char** argv) {
  verbena::differential::SilenceGrpc();
  testing::InitGoogleTest(&argc, argv);
  verbena::differential::RegisterTests(
      verbena::testing_support::ParseSeedRange(argc, argv));
  return RUN_ALL_TESTS();
}
