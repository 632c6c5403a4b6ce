#include "transport/server/server_call_state.h"

namespace verbena::transport {

const char* ServerCallStateName(ServerCallState state) {
  switch (state) {
    case ServerCallState::kFree:
      return "over";
    case ServerCallState::kAwaitsMemory:
      return "waits for memory for its request";
    case ServerCallState::kReading:
      return "its request is being read";
    case ServerCallState::kHandling:
      return "at its handler";
    case ServerCallState::kDraining:
      return "its stream is being sent";
    case ServerCallState::kPendingQueued:
      return "waits for a credit";
    case ServerCallState::kAwaitsLease:
      return "waits for memory of its client";
    case ServerCallState::kAwaitsReplyMemory:
      return "waits for memory for its reply";
    case ServerCallState::kWriting:
      return "its reply is being written";
    case ServerCallState::kReplyQueued:
      return "its reply waits for a credit";
  }
  return "in an unknown state";
}

}  // namespace verbena::transport
