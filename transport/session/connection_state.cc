#include "transport/session/connection_state.h"

#include "transport/base/check.h"

namespace verbena::transport {
namespace {

constexpr size_t kStates = DeviceCounters::kStates;

constexpr const char* kNames[kStates] = {"connecting", "open", "saying bye",
                                         "draining", "closed"};

// By the state before (rows) and the state after (columns).
// No state leads back: a connection that has failed is never used again.
// Only kDraining leads to kClosed, because the device must let go of the
// memory first.
constexpr bool kLegal[kStates][kStates] = {
    {false, true, true, true, false},    // connecting
    {false, false, true, true, false},   // open
    {false, false, false, true, false},  // saying bye
    {false, false, false, false, true},  // draining
    {},                                  // closed
};

}  // namespace

const char* ConnectionStateName(ConnectionState state) {
  return kNames[static_cast<size_t>(state)];
}

bool IsLegalTransition(ConnectionState from, ConnectionState to) {
  return kLegal[static_cast<size_t>(from)][static_cast<size_t>(to)];
}

void ConnectionLife::Transition(ConnectionState state) {
  CHECK(IsLegalTransition(state_, state))
      << ConnectionStateName(state_) << " to " << ConnectionStateName(state);
  // Each connection counts in one state only.
  Here().Subtract();
  state_ = state;
  // Closed connections are not counted, or the gauge would only grow.
  if (state != ConnectionState::kClosed) Here().Add();
}

}  // namespace verbena::transport
