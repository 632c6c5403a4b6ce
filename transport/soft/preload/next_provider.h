// The provider behind ours: the system's libibverbs and librdmacm.

#ifndef VERBENA_TRANSPORT_SOFT_PRELOAD_NEXT_PROVIDER_H_
#define VERBENA_TRANSPORT_SOFT_PRELOAD_NEXT_PROVIDER_H_

#include "transport/verbs/provider.h"

namespace verbena::soft {

// The same provider as SystemProvider() of transport/verbs. That cannot be used
// here, because in this library the names that it links to are our own.
const transport::Provider& NextProvider();

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_PRELOAD_NEXT_PROVIDER_H_
