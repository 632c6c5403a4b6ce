#include "transport/session/connection_state.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "transport/polling/poller_counters.h"

namespace verbena::transport {
namespace {

using enum ConnectionState;

constexpr ConnectionState kAll[] = {kConnecting, kOpen, kSayingBye, kDraining,
                                    kClosed};
static_assert(std::size(kAll) == DeviceCounters::kStates);

TEST(ConnectionStateTest, AllowsExactlyTheTransitionsOfTheDrawing) {
  std::string drawing = "\n";
  for (const ConnectionState from : kAll) {
    for (const ConnectionState to : kAll) {
      if (!IsLegalTransition(from, to)) continue;
      absl::StrAppend(&drawing, ConnectionStateName(from), " -> ",
                      ConnectionStateName(to), "\n");
    }
  }
  EXPECT_EQ(drawing, R"(
connecting -> open
connecting -> saying bye
connecting -> draining
open -> saying bye
open -> draining
saying bye -> draining
draining -> closed
)");
}

TEST(ConnectionLifeTest, IsCountedInItsStateUntilItIsClosed) {
  DeviceCounters counters;
  const auto count = [&](ConnectionState state) {
    return counters.connections[static_cast<size_t>(state)].value();
  };
  {
    ConnectionLife life(counters.connections);
    EXPECT_EQ(count(kConnecting), 1u);
    EXPECT_FALSE(life.ending());
    life.Transition(kOpen);
    EXPECT_EQ(count(kConnecting), 0u);
    EXPECT_EQ(count(kOpen), 1u);
    EXPECT_FALSE(life.ending());
    life.Transition(kDraining);
    EXPECT_TRUE(life.ending());
    life.Transition(kClosed);
    EXPECT_EQ(count(kDraining), 0u);
    EXPECT_EQ(count(kClosed), 0u);
  }
  { const ConnectionLife dropped(counters.connections); }
  for (const ConnectionState state : kAll) EXPECT_EQ(count(state), 0u);
}

TEST(ConnectionLifeDeathTest, RefusesAnyOtherTransition) {
  DeviceCounters counters;
  ConnectionLife life(counters.connections);
  life.Transition(kDraining);
  EXPECT_DEATH(life.Transition(kOpen), "draining to open");
}

}  // namespace
}  // namespace verbena::transport
