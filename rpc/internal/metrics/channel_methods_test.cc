#include "rpc/internal/metrics/channel_methods.h"

#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace verbena::internal {
namespace {

TEST(ChannelMethodsTest, CountsEachMethodApart) {
  ChannelMethods methods;
  MethodCounters& one = methods.Find(65, "one", /*streams=*/false);
  // The place in direct_ of "one" is also that of "other".
  MethodCounters& other = methods.Find(129, "other", /*streams=*/true);
  EXPECT_NE(&one, &other);
  EXPECT_EQ(&methods.Find(65, "one", /*streams=*/false), &one);
  one.NoteStart(10);
  one.NoteStart(20);
  one.NoteResponse(5);
  one.NoteEnd(absl::StatusCode::kNotFound, 1);
  const auto metrics = methods.Snapshot();
  ASSERT_EQ(metrics.size(), 2u);
  EXPECT_EQ(metrics[0].name, "one");
  EXPECT_FALSE(metrics[0].streams);
  EXPECT_EQ(metrics[0].started, 2u);
  EXPECT_EQ(metrics[0].open(), 1u);
  EXPECT_EQ(metrics[0].ended[static_cast<int>(absl::StatusCode::kNotFound)],
            1u);
  EXPECT_EQ(metrics[0].request_bytes, 30u);
  EXPECT_EQ(metrics[0].response_bytes, 5u);
  EXPECT_EQ(metrics[0].latency.counts[0], 1u);
  EXPECT_TRUE(metrics[1].streams);
  EXPECT_EQ(metrics[1].started, 0u);
}

TEST(ChannelMethodsTest, KeepsWhatStreamsCarried) {
  ChannelMethods methods;
  StreamCount requests;
  requests.messages.Add(3);
  requests.bytes.Add(300);
  StreamCount responses;
  responses.messages.Add(2);
  methods.Find(1, "stream", /*streams=*/true).NoteStream(requests, responses);
  const MethodMetrics metrics = methods.Snapshot().front();
  EXPECT_EQ(metrics.stream_requests, 3u);
  EXPECT_EQ(metrics.stream_responses, 2u);
  EXPECT_EQ(metrics.request_bytes, 300u);
}

TEST(ChannelMethodsTest, ATimedCallStandsForThoseThatWereNot) {
  MethodCounters counters;
  int timed = 0;
  for (int i = 0; i < 24; ++i) {
    counters.NoteStart(0);
    if (counters.IsTimed()) {
      ++timed;
      counters.NoteEnd(absl::StatusCode::kOk, 1);
    } else {
      counters.NoteUntimedEnd(absl::StatusCode::kOk);
    }
  }
  MethodMetrics metrics;
  counters.AddTo(&metrics);
  EXPECT_EQ(timed, 3);
  EXPECT_EQ(metrics.ended_in_all(), 24u);
  EXPECT_EQ(metrics.latency.counts[0], 17u);  // The last seven are to come.
}

// A code that no version of this knows is counted all the same.
TEST(ChannelMethodsTest, CountsForeignCodes) {
  MethodCounters counters;
  counters.NoteStart(0);
  counters.NoteEnd(static_cast<absl::StatusCode>(99), 1);
  MethodMetrics metrics;
  counters.AddTo(&metrics);
  EXPECT_EQ(metrics.ended[static_cast<int>(absl::StatusCode::kUnknown)], 1u);
}

TEST(ChannelMethodsTest, HasRoomForSoManyAndCountsTheRestTogether) {
  ChannelMethods methods;
  for (uint64_t id = 1; id <= 1500; ++id) {
    methods.Find(id, std::to_string(id).c_str(), /*streams=*/false)
        .NoteStart(1);
  }
  uint64_t others = 0;
  uint64_t calls = 0;
  const auto metrics = methods.Snapshot();
  for (const MethodMetrics& method : metrics) {
    calls += method.started;
    if (method.name == kOtherMethods) others = method.started;
  }
  EXPECT_EQ(metrics.size(), 1001u);
  EXPECT_EQ(others, 500u);
  EXPECT_EQ(calls, 1500u);
}

}  // namespace
}  // namespace verbena::internal
