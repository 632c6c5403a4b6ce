#include "tools/rpc_bench/run_case.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace verbena::bench {
namespace {

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

TEST(SummarizeTest, GivesRatesAndPercentiles) {
  Sample sample;
  for (int i = 1; i <= 100; ++i) sample.latencies.Record(i);
  sample.errors = 3;
  sample.first_error = absl::UnavailableError("gone");
  sample.calls_per_s = 200;
  const Report::Result result =
      Summarize("rpc", {.size_bytes = 64, .outstanding = 1}, sample);
  EXPECT_EQ(result.layer(), "rpc");
  EXPECT_EQ(result.op(), "echo");
  EXPECT_EQ(result.payload(), "message");
  EXPECT_EQ(result.kind(), "unary");
  EXPECT_DOUBLE_EQ(result.p50_us(), 0.050);
  EXPECT_DOUBLE_EQ(result.p90_us(), 0.090);
  EXPECT_DOUBLE_EQ(result.p99_us(), 0.099);
  EXPECT_DOUBLE_EQ(result.p999_us(), 0.100);
  EXPECT_DOUBLE_EQ(result.max_us(), 0.100);
  EXPECT_DOUBLE_EQ(result.mean_us(), 0.051);
  EXPECT_DOUBLE_EQ(result.calls_per_s(), 200);
  EXPECT_DOUBLE_EQ(result.bytes_per_s(), 12800);
  EXPECT_EQ(result.errors(), 3);
  EXPECT_EQ(result.first_error(), "UNAVAILABLE: gone");
}

TEST(SummarizeTest, OnlyTheRpcLayerHasOtherKinds) {
  EXPECT_EQ(Summarize("rpc", {.kind = Kind::kBidi}, Sample()).kind(), "bidi");
  EXPECT_EQ(Summarize("verbs", {.kind = Kind::kBidi}, Sample()).kind(),
            "unary");
}

TEST(SummarizeTest, NothingMeasuredIsAbsent) {
  const Report::Result result = Summarize("rpc", Case(), Sample());
  EXPECT_FALSE(result.has_p50_us());
  EXPECT_FALSE(result.has_mean_us());
  EXPECT_FALSE(result.has_first_error());
  EXPECT_EQ(result.calls_per_s(), 0);
}

absl::StatusOr<Usage> NoUsage() { return Usage(); }

TEST(RunCaseTest, DividesWhatWasUsedByTheCalls) {
  FakeLayer layer;
  Usage used;
  const Report::Result result =
      RunCase(layer, {.size_bytes = 10, .outstanding = 2}, absl::Seconds(2),
              [&used]() -> absl::StatusOr<Usage> {
                used.cpu += absl::Microseconds(50);
                used.client_verbs.set_sends(used.client_verbs.sends() + 20);
                used.server_verbs.set_arms(used.server_verbs.arms() + 5);
                used.verbs_are_counted = true;
                return used;
              });
  EXPECT_EQ(result.calls_per_s(), 5);
  EXPECT_EQ(result.p50_us(), 2);
  EXPECT_DOUBLE_EQ(result.cpu_us_per_call(), 5);
  EXPECT_EQ(result.client_verbs().sends(), 2);
  EXPECT_EQ(result.server_verbs().arms(), 0.5);
}

TEST(RunCaseTest, DoesWithoutTheUsageOfAServerThatIsGone) {
  FakeLayer layer;
  const Report::Result result = RunCase(
      layer, {.size_bytes = 10}, absl::Seconds(1),
      []() -> absl::StatusOr<Usage> { return absl::UnavailableError("gone"); });
  EXPECT_FALSE(result.has_cpu_us_per_call());
  EXPECT_FALSE(result.has_client_verbs());
}

class UnreadyLayer : public FakeLayer {
 public:
  absl::Status Prepare(const Case& /*measured*/) override {
    return absl::UnavailableError("not yet");
  }
};

TEST(RunCaseTest, ALayerThatCannotBeginIsAnError) {
  UnreadyLayer layer;
  const Report::Result result =
      RunCase(layer, {.size_bytes = 10}, absl::Seconds(1), NoUsage);
  EXPECT_FALSE(result.has_p50_us());
  EXPECT_EQ(result.errors(), 1);
  EXPECT_EQ(result.first_error(), "UNAVAILABLE: not yet");
}

}  // namespace
}  // namespace verbena::bench
