#include "transport/soft/cm/cm_state.h"

namespace verbena::soft {

// An identifier connects once: nothing leads out of kClosed.
bool CanTransition(CmState from, CmState to) {
  switch (from) {
    case CmState::kIdle:
      return to == CmState::kBound;
    case CmState::kBound:
      return to == CmState::kListening || to == CmState::kAddressResolved;
    case CmState::kAddressResolved:
      return to == CmState::kRouteResolved;
    case CmState::kRouteResolved:
      return to == CmState::kConnecting;
    case CmState::kConnecting:
      return to == CmState::kResponded || to == CmState::kEstablished ||
             to == CmState::kClosed;
    case CmState::kResponded:
    case CmState::kAccepting:
      return to == CmState::kEstablished || to == CmState::kClosed;
    case CmState::kRequested:
      return to == CmState::kAccepting || to == CmState::kClosed;
    case CmState::kEstablished:
      return to == CmState::kClosed;
    case CmState::kListening:
    case CmState::kClosed:
      return false;
  }
  return false;
}

const char* CmStateName(CmState state) {
  switch (state) {
    case CmState::kIdle:
      return "idle";
    case CmState::kBound:
      return "bound";
    case CmState::kListening:
      return "listening";
    case CmState::kAddressResolved:
      return "address resolved";
    case CmState::kRouteResolved:
      return "route resolved";
    case CmState::kConnecting:
      return "connecting";
    case CmState::kResponded:
      return "responded";
    case CmState::kRequested:
      return "requested";
    case CmState::kAccepting:
      return "accepting";
    case CmState::kEstablished:
      return "established";
    case CmState::kClosed:
      return "closed";
  }
  return "unknown state";
}

}  // namespace verbena::soft
