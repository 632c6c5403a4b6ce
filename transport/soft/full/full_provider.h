// The provider of the software device for programs that use verbs themselves.

#ifndef VERBENA_TRANSPORT_SOFT_FULL_FULL_PROVIDER_H_
#define VERBENA_TRANSPORT_SOFT_FULL_FULL_PROVIDER_H_

#include "transport/verbs/provider.h"

namespace verbena::soft {

// As SoftProvider(), on the same device, with all the verbs and port spaces
// that README.md lists. Its identifiers have a connection manager of their own.
// Any thread may call it and every entry.
const transport::Provider& FullSoftProvider();

// From now on requests of this provider wait, for kListenerAwayMs, for a
// listener of this host that is not there: for programs that count on what a
// network would do. Whoever tries again anyway is better told at once.
void WaitForListeners();

// From now on memory keys are as short as those of NICs, for programs that
// count on that. Such keys are easier to guess than our own: 24 random bits,
// not 32.
void UseShortKeys();

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_FULL_FULL_PROVIDER_H_
