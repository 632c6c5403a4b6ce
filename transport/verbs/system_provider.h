// The provider of the RDMA devices that the kernel knows: hardware, rxe and
// siw.

#ifndef VERBENA_TRANSPORT_VERBS_SYSTEM_PROVIDER_H_
#define VERBENA_TRANSPORT_VERBS_SYSTEM_PROVIDER_H_

#include "transport/verbs/provider.h"

namespace verbena::transport {

// libibverbs and librdmacm. Any thread may call it and every entry.
//
// On a machine without RDMA the entries fail as their man pages say
// (create_event_channel with ENODEV, get_device_list with an empty list or
// ENOSYS); nothing aborts, and nothing is tried before an entry is called.
const Provider& SystemProvider();

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_VERBS_SYSTEM_PROVIDER_H_
