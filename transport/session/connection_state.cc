#include "transport/session/connection_state.h"

namespace verbena::transport {

const char* ConnectionStateName(ConnectionState state) {
  switch (state) {
    case ConnectionState::kConnecting:
      return "connecting";
    case ConnectionState::kOpen:
      return "open";
    case ConnectionState::kSayingBye:
      return "saying bye";
    case ConnectionState::kDraining:
      return "draining";
    case ConnectionState::kClosed:
      return "closed";
  }
  return "unknown";
}

bool IsLegalTransition(ConnectionState from, ConnectionState to) {
  switch (from) {
    case ConnectionState::kConnecting:
      return to == ConnectionState::kOpen ||
             to == ConnectionState::kSayingBye ||
             to == ConnectionState::kDraining;
    case ConnectionState::kOpen:
      return to == ConnectionState::kSayingBye ||
             to == ConnectionState::kDraining;
    case ConnectionState::kSayingBye:
      return to == ConnectionState::kDraining;
    case ConnectionState::kDraining:
      return to == ConnectionState::kClosed;
    case ConnectionState::kClosed:
      return false;
  }
  return false;
}

}  // namespace verbena::transport
