// The states of a channel's connection.

#ifndef VERBENA_RPC_CHANNEL_STATE_H_
#define VERBENA_RPC_CHANNEL_STATE_H_

#include "absl/strings/string_view.h"

namespace verbena {

enum class ChannelState {
  kIdle,              // Not connected; the next call connects.
  kConnecting,        // Calls wait for the attempt that is under way.
  kReady,             // Connected.
  kTransientFailure,  // The last attempt failed; calls fail until the next.
};

// The word for `state` in messages: "READY" and so on.
constexpr absl::string_view ChannelStateName(ChannelState state) {
  switch (state) {
    case ChannelState::kIdle:
      return "IDLE";
    case ChannelState::kConnecting:
      return "CONNECTING";
    case ChannelState::kReady:
      return "READY";
    case ChannelState::kTransientFailure:
      return "TRANSIENT_FAILURE";
  }
  return "UNKNOWN";
}

}  // namespace verbena

#endif  // VERBENA_RPC_CHANNEL_STATE_H_
