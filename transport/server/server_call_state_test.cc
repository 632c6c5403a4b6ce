#include "transport/server/server_call_state.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/str_cat.h"

namespace verbena::transport {
namespace {

// Draws the table: a line for each state, with a column for each next state.
std::string Draw() {
  std::string drawing;
  for (int from = 0; from < kServerCallStates; ++from) {
    for (int to = 0; to < kServerCallStates; ++to) {
      absl::StrAppend(&drawing,
                      IsLegalTransition(static_cast<ServerCallState>(from),
                                        static_cast<ServerCallState>(to))
                          ? " x"
                          : " .");
    }
    absl::StrAppend(&drawing, "  ",
                    ServerCallStateName(static_cast<ServerCallState>(from)),
                    "\n");
  }
  return drawing;
}

TEST(ServerCallStateTest, DrawsTheTableOfTransitions) {
  // The columns stand in the order of the lines: over, waits for memory, ...
  EXPECT_EQ(Draw(),
            " . x . x . . . . . x  over\n"
            " x . x . . . . . . x  waits for memory for its request\n"
            " x . . x . . . . . x  its request is being read\n"
            " x . . . x x . x . x  at its handler\n"
            " x . . . . x . x . x  its stream is being sent\n"
            " x . . . . . x . . x  waits for a credit\n"
            " x . . . . . . x . x  waits for memory of its client\n"
            " x . . . . . . . x x  waits for memory for its reply\n"
            " x . . . . . . . . x  its reply is being written\n"
            " x . . . . . . . . x  its reply waits for a credit\n");
}

TEST(ServerCallStateTest, EveryCallCanEnd) {
  for (int from = 1; from < kServerCallStates; ++from) {
    EXPECT_TRUE(IsLegalTransition(static_cast<ServerCallState>(from),
                                  ServerCallState::kFree));
  }
}

TEST(ServerCallStateTest, NamesEveryStateDifferently) {
  std::set<std::string> names;
  for (int state = 0; state < kServerCallStates; ++state) {
    names.insert(ServerCallStateName(static_cast<ServerCallState>(state)));
  }
  EXPECT_EQ(names.size(), size_t{kServerCallStates});
  EXPECT_EQ(names.count("in an unknown state"), 0u);
}

}  // namespace
}  // namespace verbena::transport
