// The states of a connection.

#ifndef VERBENA_TRANSPORT_SESSION_CONNECTION_STATE_H_
#define VERBENA_TRANSPORT_SESSION_CONNECTION_STATE_H_

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

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SESSION_CONNECTION_STATE_H_
