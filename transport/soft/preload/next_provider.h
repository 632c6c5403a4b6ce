// The provider behind ours: the system's libibverbs and librdmacm.

#ifndef VERBENA_TRANSPORT_SOFT_PRELOAD_NEXT_PROVIDER_H_
#define VERBENA_TRANSPORT_SOFT_PRELOAD_NEXT_PROVIDER_H_

#include "transport/verbs/provider.h"

namespace verbena::soft {

// Returns a provider that does what SystemProvider() of transport/verbs does.
// SystemProvider() itself cannot be used here: the names that it links to are
// our own functions in this library.
const transport::Provider& NextProvider();

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_PRELOAD_NEXT_PROVIDER_H_
