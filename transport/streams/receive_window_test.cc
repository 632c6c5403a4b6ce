#include "transport/streams/receive_window.h"

#include "gtest/gtest.h"
#include "transport/base/limits.h"

namespace verbena::transport {
namespace {

constexpr uint64_t kWindow = kStreamWindowBytes;

TEST(ReceiveWindowTest, TakesAsMuchAsItHasGranted) {
  ReceiveWindow window;
  EXPECT_TRUE(window.Receive(kWindow, /*reader_waits=*/false));
  EXPECT_FALSE(window.Receive(1, /*reader_waits=*/false));
}

TEST(ReceiveWindowTest, AsksForThePollerOnceHalfOfTheWindowWasRead) {
  ReceiveWindow window;
  EXPECT_TRUE(window.Receive(kWindow, /*reader_waits=*/false));
  EXPECT_FALSE(window.Consume(kWindow / 2 - 1));
  EXPECT_FALSE(window.GrantDue(/*awaited=*/0));
  EXPECT_TRUE(window.Consume(1));
  EXPECT_TRUE(window.GrantDue(/*awaited=*/0));
  // The poller was told, and has not looked yet.
  EXPECT_FALSE(window.Consume(1));
  EXPECT_EQ(window.Grant(/*awaited=*/0), kWindow + kWindow / 2 + 1);
  EXPECT_FALSE(window.GrantDue(/*awaited=*/0));
  EXPECT_FALSE(window.Consume(kWindow / 2 - 1));
  EXPECT_TRUE(window.Consume(1));
}

TEST(ReceiveWindowTest, GrantsTheEndOfAMessageThatTheReaderWaitsFor) {
  ReceiveWindow window;
  EXPECT_FALSE(window.GrantDue(kWindow));
  EXPECT_TRUE(window.GrantDue(3 * kWindow));
  EXPECT_EQ(window.Grant(3 * kWindow), 3 * kWindow);
  EXPECT_EQ(window.granted(), 3 * kWindow);
}

TEST(ReceiveWindowTest, GrowsWhereTheReaderWaitsForGrants) {
  ReceiveWindow window;
  EXPECT_TRUE(window.Receive(kWindow, /*reader_waits=*/true));
  window.Consume(kWindow);
  EXPECT_EQ(window.Grant(/*awaited=*/0), 3 * kWindow);
  for (int i = 0; i < 20; ++i) {
    const uint64_t bytes = window.granted() - window.received();
    EXPECT_TRUE(window.Receive(bytes, /*reader_waits=*/true));
    window.Consume(bytes);
    window.Grant(/*awaited=*/0);
  }
  EXPECT_EQ(window.granted() - window.received(), kMaxStreamWindowBytes);
}

TEST(ReceiveWindowTest, StaysWhereTheReaderIsSlower) {
  ReceiveWindow window;
  EXPECT_TRUE(window.Receive(kWindow, /*reader_waits=*/false));
  window.Consume(kWindow);
  EXPECT_EQ(window.Grant(/*awaited=*/0), 2 * kWindow);
}

}  // namespace
}  // namespace verbena::transport
