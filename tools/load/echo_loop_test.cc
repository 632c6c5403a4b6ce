#include "tools/load/echo_loop.h"

#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tools/load/workload.h"

namespace verbena::bench {
namespace {

// Ends every call in the poll after its start.
class FakePipe final : public EchoPipe {
 public:
  void Start(int slot) override {
    EXPECT_TRUE(open_.insert(slot).second) << "a call in a slot that has one";
    most_ = std::max(most_, open_.size());
  }

  absl::Status Poll(Sink& sink, absl::Time /*until*/) override {
    if (++polls_ == fail_at) return absl::UnavailableError("gone");
    const std::set<int> ended = std::move(open_);
    open_.clear();
    for (int slot : ended) sink.OnEnded(slot, outcome);
    return absl::OkStatus();
  }

  size_t open() const { return open_.size(); }
  size_t most() const { return most_; }

  absl::Status outcome;
  int fail_at = -1;

 private:
  std::set<int> open_;
  size_t most_ = 0;
  int polls_ = 0;
};

TEST(EchoLoopTest, KeepsAsManyOutstandingAsAskedAndEndsThemAll) {
  for (int outstanding : {1, 8}) {
    FakePipe pipe;
    const Sample sample =
        RunEchoes(pipe, {.outstanding = outstanding}, absl::Milliseconds(10));
    EXPECT_GT(sample.latencies.count(), 0u);
    EXPECT_EQ(sample.errors, 0u);
    EXPECT_EQ(pipe.most(), static_cast<size_t>(outstanding));
    EXPECT_EQ(pipe.open(), 0u);
  }
}

TEST(EchoLoopTest, KeepsARate) {
  FakePipe pipe;
  const Sample sample = RunEchoes(pipe, {.outstanding = 4, .rate_per_s = 10000},
                                  absl::Milliseconds(50));
  EXPECT_GT(sample.latencies.count(), 0u);
  EXPECT_LE(sample.latencies.count(), 501u);
}

TEST(EchoLoopTest, StopsAfterSoManyIterations) {
  FakePipe pipe;
  const Sample sample = RunEchoes(pipe, {.outstanding = 4, .iterations = 10},
                                  absl::Milliseconds(10));
  EXPECT_EQ(sample.latencies.count(), 10u);
}

TEST(EchoLoopTest, CountsCallsThatFail) {
  FakePipe pipe;
  pipe.outcome = absl::DataLossError("other bytes");
  const Sample sample =
      RunEchoes(pipe, {.outstanding = 2}, absl::Milliseconds(10));
  EXPECT_EQ(sample.latencies.count(), 0u);
  EXPECT_EQ(sample.first_error, pipe.outcome);
}

TEST(EchoLoopTest, EndsWhenThePipeFails) {
  FakePipe pipe;
  pipe.fail_at = 3;
  const Sample sample = RunEchoes(pipe, {.outstanding = 2}, absl::Seconds(30));
  EXPECT_EQ(sample.errors, 1u);
  EXPECT_EQ(sample.first_error, absl::UnavailableError("gone"));
}

}  // namespace
}  // namespace verbena::bench
