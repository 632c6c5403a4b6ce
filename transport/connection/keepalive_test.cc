#include "transport/connection/keepalive.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"

namespace verbena::transport {
namespace {

using Verdict = Keepalive::Verdict;

constexpr absl::Duration kTime = absl::Seconds(10);
constexpr absl::Duration kTimeout = absl::Seconds(3);
constexpr absl::Time kStart = absl::UnixEpoch();

TEST(KeepaliveTest, AsksASilentPeerOnceAndThenGivesItUp) {
  Keepalive keepalive(kTime, kTimeout, kStart);
  EXPECT_EQ(keepalive.NextTick(), kStart + kTime);
  EXPECT_EQ(keepalive.Tick(kStart + absl::Seconds(9), true), Verdict::kFine);
  EXPECT_EQ(keepalive.Tick(kStart + kTime, true), Verdict::kPingDue);
  EXPECT_EQ(keepalive.NextTick(), kStart + kTime + kTimeout);
  EXPECT_EQ(keepalive.Tick(kStart + absl::Seconds(12), true), Verdict::kFine);
  EXPECT_EQ(keepalive.Tick(kStart + absl::Seconds(13), true), Verdict::kDead);
  EXPECT_EQ(keepalive.Silence(kStart + absl::Seconds(13)), absl::Seconds(13));
}

TEST(KeepaliveTest, BeginsAnewWithEveryFrame) {
  Keepalive keepalive(kTime, kTimeout, kStart);
  EXPECT_EQ(keepalive.Tick(kStart + kTime, true), Verdict::kPingDue);
  keepalive.NoteFrame();
  EXPECT_EQ(keepalive.Tick(kStart + absl::Seconds(14), true), Verdict::kFine);
  EXPECT_EQ(keepalive.NextTick(), kStart + absl::Seconds(24));
}

TEST(KeepaliveTest, SaysNothingWhileSilenceIsNotSuspicious) {
  Keepalive keepalive(kTime, kTimeout, kStart);
  EXPECT_EQ(keepalive.Tick(kStart + absl::Hours(1), false), Verdict::kFine);
  EXPECT_EQ(keepalive.Tick(kStart + absl::Hours(1), true), Verdict::kPingDue);
}

}  // namespace
}  // namespace verbena::transport
