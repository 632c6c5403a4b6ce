// A network for tests, in which this host can be reached as another host.

#ifndef VERBENA_TRANSPORT_SOFT_CM_NETWORK_OF_OWN_H_
#define VERBENA_TRANSPORT_SOFT_CM_NETWORK_OF_OWN_H_

#include <cstdint>

#include "transport/base/socket_address.h"

namespace verbena::soft {

// The loopback device has this address with a whole subnet. The kernel takes
// what is sent to any address of that, but only this one is an address of this
// host, so the device reaches the others as it reaches other hosts.
inline constexpr char kOwnAddress[] = "10.78.0.1";

// A port of this host, as that of another host.
base::SocketAddress OtherHost(uint16_t port);

// Gives this process a network name space of its own, with that device.
// REQUIRES: the process has one thread.
void EnterNetworkOfOurOwn();

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CM_NETWORK_OF_OWN_H_
