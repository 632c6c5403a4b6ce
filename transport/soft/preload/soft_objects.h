// Which devices there are, and which of them an object belongs to.

#ifndef VERBENA_TRANSPORT_SOFT_PRELOAD_SOFT_OBJECTS_H_
#define VERBENA_TRANSPORT_SOFT_PRELOAD_SOFT_OBJECTS_H_

#include <infiniband/verbs.h>

#include "transport/verbs/provider.h"

namespace verbena::soft {

// All of these may be called by any thread.

// The software provider, its device named soft0.
const transport::Provider& Soft();

// Whether the environment asks for the software device alone
// (VERBENA_SOFT_ONLY=1).
bool SoftOnly();

bool IsSoft(const ibv_device* device);
// The context is not looked into if there are no others: it may be that of an
// object which has been destroyed, and then anything.
inline bool IsSoft(const ibv_context* context) {
  return SoftOnly() || IsSoft(context->device);
}

// The verbs for an object of that device: our own or the system's.
const transport::VerbsOps& VerbsOf(const ibv_device* device);
const transport::VerbsOps& VerbsOf(const ibv_context* context);

// Whether the connection manager is the software device's. The answer is the
// same for the life of the process: yes if the system has no RDMA device or
// SoftOnly(). An rdma_cm_id is made before its route is known, so the two
// managers cannot share a process without wrapping every object of one of them.
bool SoftConnects();

// The index of soft0, which no device of the system has: the kernel has not
// numbered it.
int SoftDeviceIndex();

// Returns a list of the system's devices, unless SoftOnly(), followed by soft0
// if `with_soft`. Null, with errno, on failure. It must be freed with
// FreeDeviceList().
ibv_device** GetDeviceList(bool with_soft, int* count);
void FreeDeviceList(ibv_device** list);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_PRELOAD_SOFT_OBJECTS_H_
