#include "tools/rpc_bench/workload.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace verbena::bench {
namespace {

using testing::ElementsAre;

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
  const Report::Result result =
      Summarize("rpc", {.size_bytes = 64, .outstanding = 1}, sample).result;
  EXPECT_EQ(result.layer(), "rpc");
  EXPECT_EQ(result.op(), "echo");
  EXPECT_EQ(result.payload(), "message");
  EXPECT_DOUBLE_EQ(result.p50_us(), 0.050);
  EXPECT_DOUBLE_EQ(result.p90_us(), 0.090);
  EXPECT_DOUBLE_EQ(result.p99_us(), 0.099);
  EXPECT_DOUBLE_EQ(result.p999_us(), 0.100);
  EXPECT_DOUBLE_EQ(result.max_us(), 0.100);
  EXPECT_DOUBLE_EQ(result.calls_per_s(), 200);
  EXPECT_DOUBLE_EQ(result.bytes_per_s(), 12800);
  EXPECT_EQ(result.errors(), 3);
  EXPECT_EQ(result.first_error(), "UNAVAILABLE: gone");
}

TEST(SummarizeTest, NothingMeasuredIsAbsent) {
  const Report::Result result = Summarize("rpc", Case(), Sample()).result;
  EXPECT_FALSE(result.has_p50_us());
  EXPECT_FALSE(result.has_first_error());
  EXPECT_EQ(result.calls_per_s(), 0);
}

void Ignore(const Layer& /*layer*/, const Case& /*measured*/) {}

absl::StatusOr<Usage> NoUsage() { return Usage(); }

TEST(RunCasesTest, RunsEachCaseAtEachLayerBeforeTheNext) {
  FakeLayer one;
  FakeLayer other;
  std::vector<const Layer*> started;
  const std::vector<Outcome> outcomes = RunCases(
      {&one, &other}, Cases({10, 20}, {2}), absl::Seconds(2),
      [&](const Layer& layer, const Case&) { started.push_back(&layer); },
      NoUsage);
  EXPECT_THAT(started, ElementsAre(&one, &other, &one, &other));
  ASSERT_EQ(outcomes.size(), 4u);
  EXPECT_EQ(outcomes[1].result.calls_per_s(), 5);
  EXPECT_EQ(outcomes[2].result.calls_per_s(), 10);
  EXPECT_EQ(outcomes[3].result.p50_us(), 2);
}

TEST(RunCasesTest, DividesWhatWasUsedByTheCalls) {
  FakeLayer layer;
  Usage used;
  const std::vector<Outcome> outcomes =
      RunCases({&layer}, Cases({10}, {1}), absl::Seconds(1), Ignore,
               [&used]() -> absl::StatusOr<Usage> {
                 used.cpu += absl::Microseconds(50);
                 used.client_verbs.set_sends(used.client_verbs.sends() + 20);
                 used.server_verbs.set_arms(used.server_verbs.arms() + 5);
                 used.verbs_are_counted = true;
                 return used;
               });
  EXPECT_DOUBLE_EQ(outcomes[0].result.cpu_us_per_call(), 5);
  EXPECT_EQ(outcomes[0].result.client_verbs().sends(), 2);
  EXPECT_EQ(outcomes[0].result.server_verbs().arms(), 0.5);
}

TEST(RunCasesTest, DoesWithoutTheUsageOfAServerThatIsGone) {
  FakeLayer layer;
  const std::vector<Outcome> outcomes = RunCases(
      {&layer}, Cases({10}, {1}), absl::Seconds(1), Ignore,
      []() -> absl::StatusOr<Usage> { return absl::UnavailableError("gone"); });
  EXPECT_FALSE(outcomes[0].result.has_cpu_us_per_call());
  EXPECT_FALSE(outcomes[0].result.has_client_verbs());
}

class UnreadyLayer : public FakeLayer {
 public:
  absl::Status Prepare(const Case& /*measured*/) override {
    return absl::UnavailableError("not yet");
  }
};

TEST(RunCasesTest, ALayerThatCannotBeginIsAnError) {
  UnreadyLayer layer;
  const std::vector<Outcome> outcomes =
      RunCases({&layer}, Cases({10}, {1}), absl::Seconds(1), Ignore, NoUsage);
  EXPECT_FALSE(outcomes[0].result.has_p50_us());
  EXPECT_EQ(outcomes[0].result.errors(), 1);
  EXPECT_EQ(outcomes[0].result.first_error(), "UNAVAILABLE: not yet");
}

TEST(SizeNameTest, UsesTheLargestUnitThatFits) {
  EXPECT_EQ(SizeName(0), "0 B");
  EXPECT_EQ(SizeName(64), "64 B");
  EXPECT_EQ(SizeName(1025), "1025 B");
  EXPECT_EQ(SizeName(4096), "4 KiB");
  EXPECT_EQ(SizeName(1 << 20), "1 MiB");
}

absl::Span<uint8_t> BytesOf(std::string& text) {
  return {reinterpret_cast<uint8_t*>(text.data()), text.size()};
}

TEST(PayloadTest, DiffersFromPlaceToPlace) {
  const std::string payload = Payload(1024);
  EXPECT_EQ(payload.size(), 1024u);
  EXPECT_NE(payload.substr(0, 256), payload.substr(256, 256));
}

TEST(PayloadTest, AStampChangesIt) {
  std::string one = Payload(64);
  std::string other = Payload(64);
  Stamp(1, BytesOf(one));
  Stamp(2, BytesOf(other));
  EXPECT_NE(one, other);
  EXPECT_EQ(one.substr(8), other.substr(8));
}

TEST(PayloadTest, AStampFitsWhatIsThere) {
  std::string small = "abc";
  Stamp(~uint64_t{0}, BytesOf(small));
  EXPECT_EQ(small, "\xff\xff\xff");
  Stamp(1, {});
}

TEST(CheckEchoTest, ComparesLengthsAndIfAskedBytes) {
  std::string sent = "abcd";
  std::string other = "abce";
  EXPECT_EQ(CheckEcho(BytesOf(sent), BytesOf(sent), true), absl::OkStatus());
  EXPECT_EQ(CheckEcho(BytesOf(other), BytesOf(sent), false), absl::OkStatus());
  EXPECT_EQ(CheckEcho(BytesOf(other), BytesOf(sent), true),
            absl::DataLossError("other bytes came back than were sent"));
  EXPECT_EQ(CheckEcho(BytesOf(sent).subspan(1), BytesOf(sent), false),
            absl::DataLossError("3 bytes came back of 4"));
}

}  // namespace
}  // namespace verbena::bench
