#include "rpc/internal/server/slow_calls.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace verbena::internal {
namespace {

constexpr uint64_t kMillisecond = 1'000'000;

// A cycle is a nanosecond here.
class SlowCallsTest : public testing::Test {
 protected:
  void End(uint64_t milliseconds, const std::string& method = "Some/Method") {
    const uint64_t cycles = milliseconds * kMillisecond;
    if (!calls_.IsSlow(cycles)) return;
    calls_.Add(method, "10.0.0.1:2", absl::StatusCode::kOk, cycles, now_);
  }
  // The times of those that are kept, in milliseconds, the longest first.
  std::vector<int64_t> Kept() {
    std::vector<SlowCallStatus> list;
    calls_.AppendTo(now_, &list);
    std::vector<int64_t> times;
    for (const SlowCallStatus& call : list) {
      times.push_back(absl::ToInt64Milliseconds(call.latency));
    }
    std::sort(times.rbegin(), times.rend());
    return times;
  }

  const base::CycleRate rate_{1, 1};
  SlowCalls calls_{rate_};
  uint64_t now_ = 1;
};

TEST_F(SlowCallsTest, ShortCallsAreNone) {
  End(1);
  EXPECT_TRUE(Kept().empty());
  EXPECT_FALSE(calls_.IsSlow(kMillisecond - 1000));
}

TEST_F(SlowCallsTest, TheSlowestStay) {
  for (uint64_t i = 2; i < 100; ++i) End(i);
  for (uint64_t i = 2; i < 50; ++i) End(i);
  ASSERT_EQ(Kept().size(), SlowCalls::kMost);
  EXPECT_EQ(Kept().front(), 99);
  EXPECT_EQ(Kept().back(), 100 - static_cast<int64_t>(SlowCalls::kMost));
}

TEST_F(SlowCallsTest, OldOnesMakeRoom) {
  for (uint64_t i = 0; i < SlowCalls::kMost; ++i) End(1000);
  End(5);
  EXPECT_EQ(Kept().back(), 1000);
  now_ += SlowCalls::kKeptNanos + kMillisecond;
  EXPECT_TRUE(Kept().empty());
  End(5);
  EXPECT_EQ(Kept(), std::vector<int64_t>{5});
}

TEST_F(SlowCallsTest, SaysWhatAndWhen) {
  End(7, "a.B/C");
  now_ += 3 * kMillisecond;
  std::vector<SlowCallStatus> list;
  calls_.AppendTo(now_, &list);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].method, "a.B/C");
  EXPECT_EQ(list[0].peer, "10.0.0.1:2");
  EXPECT_EQ(list[0].latency, absl::Milliseconds(7));
  EXPECT_EQ(list[0].ended_ago, absl::Milliseconds(3));
}

TEST_F(SlowCallsTest, LongNamesAreCut) {
  const std::string name(1000, 'x');
  End(7, name);
  std::vector<SlowCallStatus> list;
  calls_.AppendTo(now_, &list);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].method, name.substr(0, 200));
}

TEST(SlowCalls, WithoutAClockNoneIs) {
  const base::CycleRate standing(0, 1);
  EXPECT_FALSE(SlowCalls(standing).IsSlow(UINT64_MAX));
}

}  // namespace
}  // namespace verbena::internal
