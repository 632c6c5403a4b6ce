// The asynchronous events of a context, as its user reads them.

#ifndef VERBENA_TRANSPORT_SOFT_EXTENDED_ASYNC_EVENTS_H_
#define VERBENA_TRANSPORT_SOFT_EXTENDED_ASYNC_EVENTS_H_

#include <infiniband/verbs.h>

namespace verbena::soft {

// The verbs of these names.
int GetAsyncEvent(ibv_context* context, ibv_async_event* event);
void AckAsyncEvent(ibv_async_event* event);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_EXTENDED_ASYNC_EVENTS_H_
