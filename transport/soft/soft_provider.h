// The provider of the software device.

#ifndef VERBENA_TRANSPORT_SOFT_SOFT_PROVIDER_H_
#define VERBENA_TRANSPORT_SOFT_SOFT_PROVIDER_H_

#include "transport/base/socket_address.h"
#include "transport/verbs/provider.h"

namespace verbena::soft {

// The verbs and the RDMA CM that RPC needs, in user space, on every machine;
// README.md says what they honour. Entries of other verbs fail with EOPNOTSUPP:
// FullSoftProvider() in full/full_provider.h has them. Any thread may call it
// and every entry.
const transport::Provider& SoftProvider();

// Whether `address` is of this host, so that the kernel alone, and at once,
// says that nobody listens there. The port does not matter.
bool IsOnThisHost(const base::SocketAddress& address);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_SOFT_PROVIDER_H_
