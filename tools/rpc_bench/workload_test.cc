#include "tools/rpc_bench/workload.h"

#include <cstdint>
#include <string>

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

TEST(SizeNameTest, UsesTheLargestUnitThatFits) {
  EXPECT_EQ(SizeName(0), "0 B");
  EXPECT_EQ(SizeName(64), "64 B");
  EXPECT_EQ(SizeName(1025), "1025 B");
  EXPECT_EQ(SizeName(4096), "4 KiB");
  EXPECT_EQ(SizeName(1 << 20), "1 MiB");
}

TEST(PayloadTest, DiffersFromPlaceToPlace) {
  const std::string payload = Payload(1024);
  EXPECT_EQ(payload.size(), 1024u);
  EXPECT_NE(payload.substr(0, 256), payload.substr(256, 256));
}

TEST(EchoCheckTest, StampsEachCallIfAllAreCompared) {
  std::string payload = Payload(64);
  EchoCheck first_only(false);
  first_only.Stamp(BytesOf(payload));
  EXPECT_EQ(payload, Payload(64));
  EchoCheck all(true);
  all.Stamp(BytesOf(payload));
  const std::string one = payload;
  all.Stamp(BytesOf(payload));
  EXPECT_NE(payload, one);
  EXPECT_EQ(payload.substr(8), Payload(64).substr(8));
}

TEST(EchoCheckTest, AStampFitsWhatIsThere) {
  std::string small = "abc";
  EchoCheck all(true);
  all.Stamp({});
  all.Stamp(BytesOf(small));
  EXPECT_EQ(small, std::string("\1\0\0", 3));
}

TEST(EchoCheckTest, ComparesLengthsAndTheContentsOfTheFirstThatIsRight) {
  const std::string sent = "abcd";
  const std::string other = "abce";
  const absl::Status wrong =
      absl::DataLossError("other bytes came back than were sent");
  for (const bool every : {false, true}) {
    EchoCheck check(every);
    EXPECT_EQ(check.Compare(BytesOf(other), BytesOf(sent)), wrong);
    EXPECT_EQ(check.Compare(BytesOf(sent), BytesOf(sent)), absl::OkStatus());
    EXPECT_EQ(check.Compare(BytesOf(other), BytesOf(sent)),
              every ? wrong : absl::OkStatus());
    EXPECT_EQ(check.Compare(BytesOf(sent).subspan(1), BytesOf(sent)),
              absl::DataLossError("3 bytes came back of 4"));
  }
}

}  // namespace
}  // namespace verbena::bench
