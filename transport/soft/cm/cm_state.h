// The states of one rdma_cm_id, and how it goes from one to the next.

#ifndef VERBENA_TRANSPORT_SOFT_CM_CM_STATE_H_
#define VERBENA_TRANSPORT_SOFT_CM_CM_STATE_H_

namespace verbena::soft {

enum class CmState {
  kIdle,             // New; has no address.
  kBound,            // Has an address of its own, which nobody else can have.
  kListening,        // Gives birth to endpoints in kRequested, until destroyed.
  kAddressResolved,  // Knows the peer's address and the device to use.
  kRouteResolved,    // May connect.
  kConnecting,       // Has sent a request, or is about to; waits for the reply.
  kResponded,        // Has the reply; waits for the user to establish.
  kRequested,        // Born of a request that the user has not answered yet.
  kAccepting,        // Has sent the reply; waits for the peer to be ready.
  kEstablished,      // Both queue pairs can send and receive.
  kClosed,           // Rejected, failed or disconnected: only to be destroyed.
};

// Whether an endpoint may go from `from` to `to`. Every change of state that is
// not in this table is a bug.
bool CanTransition(CmState from, CmState to);

const char* CmStateName(CmState state);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CM_CM_STATE_H_
