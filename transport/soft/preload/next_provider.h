// The provider behind ours: the system's libibverbs and librdmacm.

#ifndef VERBENA_TRANSPORT_SOFT_PRELOAD_NEXT_PROVIDER_H_
#define VERBENA_TRANSPORT_SOFT_PRELOAD_NEXT_PROVIDER_H_

#include "transport/verbs/provider.h"

namespace verbena::soft {

// As SystemProvider() of transport/verbs, which cannot be used here: in this
// library the names it links to are ours.
const transport::Provider& NextProvider();

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_PRELOAD_NEXT_PROVIDER_H_
