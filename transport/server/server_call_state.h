// The states of a call at the server.

#ifndef VERBENA_TRANSPORT_SERVER_SERVER_CALL_STATE_H_
#define VERBENA_TRANSPORT_SERVER_SERVER_CALL_STATE_H_

#include <cstdint>

namespace verbena::transport {

// Each with the event that ends it.
enum class ServerCallState : uint8_t {
  kFree,               // A REQUEST.
  kAwaitsMemory,       // Memory for the request, when there is some.
  kReading,            // The last READ.
  kHandling,           // Finish().
  kDraining,           // The last frame of the handler's stream being sent.
  kPendingQueued,      // A credit, for RESPONSE_PENDING.
  kAwaitsLease,        // A LEASE, a CANCEL, or time that is over.
  kAwaitsReplyMemory,  // Memory for the reply, when there is some.
  kWriting,            // The last WRITE being posted.
  kReplyQueued,        // A credit, for the RESPONSE.
};
inline constexpr int kServerCallStates = 10;

// Returns, in words for people, what a call in the state does or waits for.
const char* ServerCallStateName(ServerCallState state);

namespace server_call_state {

template <typename... States>
constexpr uint16_t Set(States... states) {
  return static_cast<uint16_t>((0u | ... | (1u << static_cast<int>(states))));
}

// The states that may follow each, in the order of the enumeration.
using enum ServerCallState;
inline constexpr uint16_t kNext[kServerCallStates] = {
    Set(kAwaitsMemory, kHandling, kReplyQueued),
    Set(kReading, kReplyQueued, kFree),
    Set(kHandling, kReplyQueued, kFree),
    Set(kDraining, kPendingQueued, kAwaitsReplyMemory, kReplyQueued, kFree),
    Set(kPendingQueued, kAwaitsReplyMemory, kReplyQueued, kFree),
    Set(kAwaitsLease, kReplyQueued, kFree),
    Set(kAwaitsReplyMemory, kReplyQueued, kFree),
    Set(kWriting, kReplyQueued, kFree),
    Set(kReplyQueued, kFree),
    // A reply that waits for its credit may be replaced by an error.
    Set(kReplyQueued, kFree),
};

}  // namespace server_call_state

// Whether a call may go from `from` to `to`.
constexpr bool IsLegalTransition(ServerCallState from, ServerCallState to) {
  return (server_call_state::kNext[static_cast<int>(from)] >>
          static_cast<int>(to)) &
         1;
}

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SERVER_SERVER_CALL_STATE_H_
