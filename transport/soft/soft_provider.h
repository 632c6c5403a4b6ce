// The provider of the software device.

#ifndef VERBENA_TRANSPORT_SOFT_SOFT_PROVIDER_H_
#define VERBENA_TRANSPORT_SOFT_SOFT_PROVIDER_H_

#include "transport/base/socket_address.h"
#include "transport/verbs/provider.h"

namespace verbena::soft {

// Verbs and RDMA CM in user space, on every machine; see README.md for what it
// honours. Any thread may call it and every entry.
const transport::Provider& SoftProvider();

// Whether `address` is of this host, so that the kernel alone, and at once,
// says that nobody listens there. The port does not matter.
bool IsOnThisHost(const base::SocketAddress& address);

// From now on requests of this process wait, for kListenerAwayMs, for a
// listener of this host that is not there: for programs that count on what a
// network would do. Whoever tries again anyway is better told at once.
void WaitForListeners();

// From now on memory keys are as short as those of NICs, for programs that
// count on that. Such keys are easier to guess than our own: 24 random bits,
// not 32.
void UseShortKeys();

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_SOFT_PROVIDER_H_
