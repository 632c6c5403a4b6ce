// A seed gives one sequence of completions and events, down to the microsecond.

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "transport/soft/simulation.h"
#include "transport/soft/soft_faults.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr size_t kPairs = 4;
constexpr int kSteps = 300;

// Pairs of queue pairs that talk, each end behind a link of random slowness,
// and what is done to them at random.
class World {
 public:
  explicit World(uint64_t seed) : random_(seed), start_(simulation_.Now()) {
    TestEndOptions options;
    options.timeout = 14;  // 67 ms, twice.
    options.retry_count = 1;
    options.rnr_retry = 1;
    options.min_rnr_timer = 20;  // 10.24 ms.
    for (std::unique_ptr<TestEnd>& end : ends_) {
      end = std::make_unique<TestEnd>(options);
      Slow(*end);
    }
    for (size_t i = 0; i < ends_.size(); i += 2) {
      ConnectManually(*ends_[i], *ends_[i + 1]);
    }
  }

  // The completions and events that came of it, one on a line.
  std::vector<std::string> Run() {
    for (int i = 0; i < kSteps; ++i) {
      Act(i);
      simulation_.RunUntil([&] { return Look(); }, microseconds(Below(20'000)));
    }
    for (const std::unique_ptr<TestEnd>& end : ends_) ReleaseLink(end->qp);
    for (int i = 0; i < 1000; ++i) {
      Look();
      simulation_.RunFor(milliseconds(1));
    }
    return trace_;
  }

 private:
  uint64_t Below(uint64_t bound) { return random_() % bound; }

  void Slow(TestEnd& end) {
    SlowLink(end.qp, [this] { return microseconds(1 + Below(500)); });
  }

  void Act(uint64_t id) {
    TestEnd& end = *ends_[Below(ends_.size())];
    switch (Below(20)) {
      case 0:
        StallLink(end.qp);
        return;
      case 1:
        CutLink(end.qp);
        return;
      case 2:
        ForceReceiverNotReady(end.qp, static_cast<uint32_t>(1 + Below(2)));
        return;
      case 3:
      case 4:
      case 5:
        Slow(end);
        return;
      case 6:
        ReleaseLink(end.qp);
        return;
      case 7:
      case 8:
        end.Write(id, 0, 1 + Below(20'000), 0, 0);  // Refused: it has no key.
        return;
      default:
        if (Below(2) == 0) {
          end.Receive(id, 0, 1000);
        } else {
          end.Send(id, 0, Below(1000));
        }
        return;
    }
  }

  // Takes all that there is. Returns whether there was anything.
  bool Look() {
    const size_t before = trace_.size();
    for (size_t i = 0; i < ends_.size(); ++i) {
      ibv_wc completion = {};
      while (ends_[i]->PollOnce(completion)) {
        Note(absl::StrCat("end ", i, ": ", completion.wr_id, " opcode ",
                          int{completion.opcode}, " status ",
                          int{completion.status}));
      }
      for (int event = ends_[i]->NextAsyncEvent(0); event >= 0;
           event = ends_[i]->NextAsyncEvent(0)) {
        Note(absl::StrCat("end ", i, ": event ", event));
      }
    }
    return trace_.size() != before;
  }

  void Note(const std::string& what) {
    const nanoseconds time = simulation_.Now() - start_;
    trace_.push_back(absl::StrCat(time.count(), " ns ", what));
  }

  Simulation& simulation_ = Simulation::Begin();
  std::mt19937_64 random_;
  const Simulation::TimePoint start_;
  std::array<std::unique_ptr<TestEnd>, 2 * kPairs> ends_;
  std::vector<std::string> trace_;
};

TEST(SimulationSeedTest, TheSameSeedGivesTheSameTrace) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const std::vector<std::string> first = World(seed).Run();
    EXPECT_GT(first.size(), 50u);
    EXPECT_EQ(World(seed).Run(), first);
  }
}

TEST(SimulationSeedTest, AnotherSeedGivesAnother) {
  EXPECT_NE(World(1).Run(), World(2).Run());
}

}  // namespace
}  // namespace verbena::soft
