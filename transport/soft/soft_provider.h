// The provider of the software device.

#ifndef VERBENA_TRANSPORT_SOFT_SOFT_PROVIDER_H_
#define VERBENA_TRANSPORT_SOFT_SOFT_PROVIDER_H_

#include "transport/verbs/provider.h"

namespace verbena::soft {

// Verbs and RDMA CM in user space, on every machine; see README.md for what it
// honours. Any thread may call it and every entry.
const transport::Provider& SoftProvider();

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_SOFT_PROVIDER_H_
