// Options of servers and channels that all simulations share.

#ifndef VERBENA_TESTS_SIMULATION_OPTIONS_H_
#define VERBENA_TESTS_SIMULATION_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "transport/device.h"

namespace verbena::simulation {

inline constexpr absl::Duration kKeepalive = absl::Milliseconds(100);

// Returns options with the values that a server and all its channels share.
template <typename Options>
Options CommonOptions() {
  constexpr uint64_t kMessageBytesMax = uint64_t{1} << 20;
  Options options;
  options.device = std::string(transport::kSoftDevice);
  options.max_send_message_bytes = kMessageBytesMax;
  options.max_receive_message_bytes = kMessageBytesMax;
  options.memory_idle_time = absl::Milliseconds(50);
  options.keepalive_time = kKeepalive;
  options.keepalive_timeout = kKeepalive;
  return options;
}

}  // namespace verbena::simulation

#endif  // VERBENA_TESTS_SIMULATION_OPTIONS_H_
