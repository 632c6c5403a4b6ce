#include "tools/rpc_bench/workload.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace verbena::bench {
namespace {

using testing::ElementsAre;
using testing::Field;

// Answers every case with as many successes as the payload has bytes.
class FakeLayer : public Layer {
 public:
  absl::string_view name() const override { return "fake"; }

  Sample Run(const Case& measured, absl::Duration duration) override {
    Sample sample;
    for (uint64_t i = 0; i < measured.size_bytes; ++i) {
      sample.latencies.Record(uint64_t{1000} * measured.outstanding);
    }
    sample.ended = sample.latencies.count();
    sample.calls_per_s = sample.ended / absl::ToDoubleSeconds(duration);
    return sample;
  }
};

TEST(CasesTest, AreEverySizeWithEveryDepth) {
  const std::vector<Case> cases = Cases({64, 4096}, {1, 32});
  ASSERT_EQ(cases.size(), 4u);
  EXPECT_EQ(cases[1].size_bytes, 64u);
  EXPECT_EQ(cases[1].outstanding, 32);
  EXPECT_EQ(cases[2].size_bytes, 4096u);
  EXPECT_EQ(cases[2].outstanding, 1);
}

TEST(SummarizeTest, GivesRatesAndPercentiles) {
  Sample sample;
  for (int i = 1; i <= 100; ++i) sample.latencies.Record(i);
  sample.errors = 3;
  sample.first_error = absl::UnavailableError("gone");
  sample.calls_per_s = 200;
  const Result result =
      Summarize("rpc", {.size_bytes = 64, .outstanding = 1}, sample);
  EXPECT_EQ(result.layer, "rpc");
  EXPECT_EQ(result.successes, 100u);
  EXPECT_DOUBLE_EQ(result.p50_us, 0.050);
  EXPECT_DOUBLE_EQ(result.p90_us, 0.090);
  EXPECT_DOUBLE_EQ(result.p99_us, 0.099);
  EXPECT_DOUBLE_EQ(result.p999_us, 0.100);
  EXPECT_DOUBLE_EQ(result.max_us, 0.100);
  EXPECT_DOUBLE_EQ(result.calls_per_s, 200);
  EXPECT_DOUBLE_EQ(result.bytes_per_s, 12800);
  EXPECT_EQ(result.errors, 3u);
  EXPECT_EQ(result.first_error, absl::UnavailableError("gone"));
}

TEST(SummarizeTest, NothingMeasuredIsZero) {
  const Result result = Summarize("rpc", Case(), Sample());
  EXPECT_EQ(result.successes, 0u);
  EXPECT_EQ(result.p50_us, 0);
  EXPECT_EQ(result.calls_per_s, 0);
}

absl::StatusOr<absl::Duration> NoCpu() { return absl::ZeroDuration(); }

TEST(RunCasesTest, RunsEachCaseAtEachLayerBeforeTheNext) {
  FakeLayer one;
  FakeLayer other;
  std::vector<const Layer*> started;
  const std::vector<Result> results = RunCases(
      {&one, &other}, Cases({10, 20}, {2}), absl::Seconds(2),
      [&](const Layer& layer, const Case&) { started.push_back(&layer); },
      NoCpu);
  EXPECT_THAT(started, ElementsAre(&one, &other, &one, &other));
  EXPECT_THAT(results, ElementsAre(Field(&Result::calls_per_s, 5),
                                   Field(&Result::calls_per_s, 5),
                                   Field(&Result::calls_per_s, 10),
                                   Field(&Result::p50_us, 2)));
}

TEST(RunCasesTest, DividesProcessorTimeByTheCalls) {
  FakeLayer layer;
  absl::Duration used;
  const std::vector<Result> results = RunCases(
      {&layer}, Cases({10}, {1}), absl::Seconds(1),
      [](const Layer&, const Case&) {},
      [&used]() -> absl::StatusOr<absl::Duration> {
        return used += absl::Microseconds(50);
      });
  EXPECT_DOUBLE_EQ(results[0].cpu_us_per_call, 5);
}

TEST(RunCasesTest, DoesWithoutTheProcessorTimeOfAServerThatIsGone) {
  FakeLayer layer;
  const std::vector<Result> results = RunCases(
      {&layer}, Cases({10}, {1}), absl::Seconds(1),
      [](const Layer&, const Case&) {},
      []() -> absl::StatusOr<absl::Duration> {
        return absl::UnavailableError("gone");
      });
  EXPECT_LT(results[0].cpu_us_per_call, 0);
}

class UnreadyLayer : public FakeLayer {
 public:
  absl::Status Prepare(const Case& /*measured*/) override {
    return absl::UnavailableError("not yet");
  }
};

TEST(RunCasesTest, ALayerThatCannotBeginIsAnError) {
  UnreadyLayer layer;
  const std::vector<Result> results = RunCases(
      {&layer}, Cases({10}, {1}), absl::Seconds(1),
      [](const Layer&, const Case&) {}, NoCpu);
  EXPECT_EQ(results[0].successes, 0u);
  EXPECT_EQ(results[0].errors, 1u);
  EXPECT_EQ(results[0].first_error, absl::UnavailableError("not yet"));
}

}  // namespace
}  // namespace verbena::bench
