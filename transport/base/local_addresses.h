// The addresses of this host.

#ifndef VERBENA_TRANSPORT_BASE_LOCAL_ADDRESSES_H_
#define VERBENA_TRANSPORT_BASE_LOCAL_ADDRESSES_H_

#include <vector>

#include "transport/base/socket_address.h"

namespace verbena::base {

// Returns the addresses, without a port, of the network interfaces that are up,
// IPv4 first. Those of the loopback interface and link-local ones are left out,
// because other hosts cannot use them. Empty if the kernel does not tell.
std::vector<SocketAddress> InterfaceAddresses();

// Returns the address, without a port, from which this host sends to `peer`:
// it shows which interface leads there. Empty if there is no route.
SocketAddress LocalAddressTo(const SocketAddress& peer);

}  // namespace verbena::base

#endif  // VERBENA_TRANSPORT_BASE_LOCAL_ADDRESSES_H_
