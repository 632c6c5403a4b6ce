// Ports for identifiers that have asked for any port.

#ifndef VERBENA_TRANSPORT_SOFT_BASE_EPHEMERAL_PORT_H_
#define VERBENA_TRANSPORT_SOFT_BASE_EPHEMERAL_PORT_H_

#include <sys/random.h>

#include <cstdint>

namespace verbena::soft {

// Linux's default range.
inline constexpr uint16_t kEphemeralFirst = 32768;
inline constexpr uint16_t kEphemeralLast = 60999;

// Tries after which all ports count as being in use.
inline constexpr int kEphemeralTries = 1000;

inline uint16_t RandomEphemeralPort() {
  uint32_t random = 0;
  // Fails only before the kernel's pool is filled, right after boot; then it is
  // the first port.
  (void)!::getrandom(&random, sizeof(random), GRND_NONBLOCK);
  return static_cast<uint16_t>(kEphemeralFirst +
                               random % (kEphemeralLast - kEphemeralFirst + 1));
}

// The port to try after `port`.
inline uint16_t NextEphemeralPort(uint16_t port) {
  return port < kEphemeralLast ? port + 1 : kEphemeralFirst;
}

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_BASE_EPHEMERAL_PORT_H_
