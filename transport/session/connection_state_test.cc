#include "transport/session/connection_state.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

namespace verbena::transport {
namespace {

constexpr ConnectionState kAll[] = {
    ConnectionState::kConnecting, ConnectionState::kOpen,
    ConnectionState::kSayingBye, ConnectionState::kDraining,
    ConnectionState::kClosed};

TEST(ConnectionStateTest, AllowsExactlyTheTransitionsOfTheTable) {
  using enum ConnectionState;
  const std::set<std::pair<ConnectionState, ConnectionState>> legal = {
      {kConnecting, kOpen}, {kConnecting, kSayingBye}, {kConnecting, kDraining},
      {kOpen, kSayingBye},  {kOpen, kDraining},        {kSayingBye, kDraining},
      {kDraining, kClosed},
  };
  for (const ConnectionState from : kAll) {
    for (const ConnectionState to : kAll) {
      EXPECT_EQ(IsLegalTransition(from, to), legal.count({from, to}) == 1)
          << ConnectionStateName(from) << " to " << ConnectionStateName(to);
    }
  }
}

TEST(ConnectionStateTest, NamesEveryStateDifferently) {
  std::set<std::string> names;
  for (const ConnectionState state : kAll) {
    names.insert(ConnectionStateName(state));
  }
  EXPECT_EQ(names.size(), std::size(kAll));
  EXPECT_EQ(names.count("unknown"), 0u);
}

}  // namespace
}  // namespace verbena::transport
