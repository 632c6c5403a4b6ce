// Which ports of the device are up.

#ifndef VERBENA_TRANSPORT_SOFT_ADDRESS_PORT_STATES_H_
#define VERBENA_TRANSPORT_SOFT_ADDRESS_PORT_STATES_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "transport/soft/base/limits.h"

namespace verbena::soft {

enum class PortState { kDown, kActive };

inline bool IsPort(uint8_t port) { return port >= 1 && port <= kPorts; }

// The ports, all active at first. Thread-safe: a thread that sees a port down
// or up also sees everything that was written before the port was set so.
class PortStates {
 public:
  // False also for a port that the device does not have.
  bool IsActive(uint8_t port) const {
    return IsPort(port) && !down_[port - 1].load(std::memory_order_acquire);
  }
  // Returns whether the port was in the other state before.
  // REQUIRES: IsPort(port).
  bool Set(uint8_t port, PortState state) {
    const bool down = state == PortState::kDown;
    return down_[port - 1].exchange(down, std::memory_order_acq_rel) != down;
  }

 private:
  std::array<std::atomic<bool>, kPorts> down_ = {};
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_ADDRESS_PORT_STATES_H_
