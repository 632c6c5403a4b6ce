#include "transport/session/keepalive.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "absl/time/time.h"

namespace verbena::transport {
namespace {

using Silence = Keepalive::Silence;
using Verdict = Keepalive::Verdict;

constexpr absl::Duration kTime = absl::Seconds(10);
constexpr absl::Duration kTimeout = absl::Seconds(3);
constexpr absl::Time kStart = absl::UnixEpoch();

TEST(KeepaliveTest, AsksASilentPeerOnceAndThenGivesItUp) {
  Keepalive keepalive(kTime, kTimeout, kStart);
  EXPECT_EQ(keepalive.NextTick(), kStart + kTime);
  EXPECT_EQ(keepalive.Tick(kStart + absl::Seconds(9), Silence::kSuspicious),
            Verdict::kFine);
  EXPECT_EQ(keepalive.Tick(kStart + kTime, Silence::kSuspicious),
            Verdict::kPingDue);
  EXPECT_EQ(keepalive.NextTick(), kStart + kTime + kTimeout);
  EXPECT_EQ(keepalive.Tick(kStart + absl::Seconds(12), Silence::kSuspicious),
            Verdict::kFine);
  EXPECT_EQ(keepalive.Tick(kStart + absl::Seconds(13), Silence::kSuspicious),
            Verdict::kDead);
  EXPECT_EQ(keepalive.SilentFor(kStart + absl::Seconds(13)), absl::Seconds(13));
}

TEST(KeepaliveTest, BeginsAnewWithEveryFrame) {
  Keepalive keepalive(kTime, kTimeout, kStart);
  EXPECT_EQ(keepalive.Tick(kStart + kTime, Silence::kSuspicious),
            Verdict::kPingDue);
  keepalive.NoteFrame();
  EXPECT_EQ(keepalive.Tick(kStart + absl::Seconds(14), Silence::kSuspicious),
            Verdict::kFine);
  EXPECT_EQ(keepalive.NextTick(), kStart + absl::Seconds(24));
}

TEST(KeepaliveTest, SaysNothingWhileSilenceIsNotSuspicious) {
  Keepalive keepalive(kTime, kTimeout, kStart);
  EXPECT_EQ(keepalive.Tick(kStart + absl::Hours(1), Silence::kFine),
            Verdict::kFine);
  EXPECT_EQ(keepalive.Tick(kStart + absl::Hours(1), Silence::kSuspicious),
            Verdict::kPingDue);
}

TEST(KeepaliveTest, AnIdleConnectionIsProbedLessAndLessOften) {
  Keepalive keepalive(kTime, kTimeout, kStart);
  absl::Time now = kStart;
  absl::Duration silence = kTime;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(keepalive.NextTick(), now + silence);
    now += silence;
    EXPECT_EQ(keepalive.Tick(now, Silence::kIdle), Verdict::kPingDue);
    keepalive.NoteFrame();
    EXPECT_EQ(keepalive.Tick(now, Silence::kIdle), Verdict::kFine);
    silence = std::min(2 * silence, Keepalive::kLongestSilence * kTime);
  }
  // A call begins: the server is suspected as soon as ever.
  EXPECT_EQ(keepalive.Tick(now + kTime, Silence::kSuspicious),
            Verdict::kPingDue);
}

TEST(KeepaliveTest, TrafficOnAnIdleConnectionBeginsAnew) {
  Keepalive keepalive(kTime, kTimeout, kStart);
  EXPECT_EQ(keepalive.Tick(kStart + kTime, Silence::kIdle), Verdict::kPingDue);
  keepalive.NoteFrame();
  const absl::Time answered = kStart + kTime;
  EXPECT_EQ(keepalive.Tick(answered, Silence::kIdle), Verdict::kFine);
  EXPECT_EQ(keepalive.NextTick(), answered + 2 * kTime);
  keepalive.NoteFrame();
  EXPECT_EQ(keepalive.Tick(answered, Silence::kIdle), Verdict::kFine);
  EXPECT_EQ(keepalive.NextTick(), answered + kTime);
}

TEST(KeepaliveTest, PingsOfIdleConnectionsThatAreAlmostDueGoTogether) {
  Keepalive keepalive(kTime, kTimeout, kStart);
  EXPECT_EQ(keepalive.Tick(kStart + absl::Seconds(8), Silence::kIdle),
            Verdict::kFine);
  EXPECT_EQ(keepalive.Tick(kStart + absl::Seconds(9), Silence::kIdle),
            Verdict::kPingDue);
}

}  // namespace
}  // namespace verbena::transport
