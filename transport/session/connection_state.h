// The states of a connection.

#ifndef VERBENA_TRANSPORT_SESSION_CONNECTION_STATE_H_
#define VERBENA_TRANSPORT_SESSION_CONNECTION_STATE_H_

#include <array>
#include <cstddef>

#include "transport/base/counter.h"
#include "transport/polling/poller_counters.h"

namespace verbena::transport {

enum class ConnectionState {
  kConnecting,  // The queue pair is being connected, or HELLO is on its way.
  kOpen,        // Frames of all kinds go both ways.
  kSayingBye,   // Calls have ended; a BYE with the reason is on its way out.
  kDraining,    // Disconnected; what was posted is being flushed.
  kClosed,      // Nothing is posted, nobody is called back.
};

// "open", for messages.
const char* ConnectionStateName(ConnectionState state);

// Whether a connection may go from `from` to `to`.
bool IsLegalTransition(ConnectionState from, ConnectionState to);

// The state of one connection, counted among those of its device. Nobody else
// assigns it.
class ConnectionLife {
 public:
  using Gauges = std::array<base::Counter, DeviceCounters::kStates>;

  // `gauges`, by state, must outlive it.
  explicit ConnectionLife(Gauges& gauges) : gauges_(gauges) { Here().Add(); }
  ConnectionLife(const ConnectionLife&) = delete;
  ConnectionLife& operator=(const ConnectionLife&) = delete;
  ~ConnectionLife() {
    if (state_ != ConnectionState::kClosed) Here().Subtract();
  }

  ConnectionState state() const { return state_; }
  // Whether it has begun to close: no call is left.
  bool ending() const { return state_ > ConnectionState::kOpen; }
  // REQUIRES: IsLegalTransition(state(), state).
  void Transition(ConnectionState state);

 private:
  base::Counter& Here() { return gauges_[static_cast<size_t>(state_)]; }

  Gauges& gauges_;
  ConnectionState state_ = ConnectionState::kConnecting;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SESSION_CONNECTION_STATE_H_
