// An RDMA provider: the verbs, the connection manager and what the two promise.
//
// There are two: SystemProvider() (libibverbs and librdmacm, in
// system_provider.h) and SoftProvider() (user space, in transport/soft: the
// verbs that RPC calls; FullSoftProvider() there has all). A third,
// FaultyProvider in transport/faulty, wraps either one and fails on a plan.
// Nothing above transport/verbs can tell them apart but by the data in this
// struct.

#ifndef VERBENA_TRANSPORT_VERBS_PROVIDER_H_
#define VERBENA_TRANSPORT_VERBS_PROVIDER_H_

#include <rdma/rdma_cma.h>
#include <sys/types.h>

#include "transport/verbs/cm_ops.h"
#include "transport/verbs/verbs_ops.h"

namespace verbena::transport {

// The `peer_user` of a provider that knows nothing of users.
inline bool NoPeerUser(rdma_cm_id* /*id*/, uid_t* /*user*/) { return false; }

// The tables and the name of a provider. Immutable. It lives as long as the
// process; that of a FaultyProvider, as long as that object.
struct Provider {
  const char* name;  // "system" or "soft", for messages.
  VerbsOps verbs;
  CmOps cm;
  // The user of the process at the other end of a connection, if this host's
  // kernel vouches for that: not on RDMA devices, and not for other hosts. For
  // an id that came with a CONNECT_REQUEST, or whose connect() has ended well.
  bool (*peer_user)(rdma_cm_id* id, uid_t* user) = NoPeerUser;
  // Whether a device may be removed while the process runs.
  bool removes_devices = false;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_VERBS_PROVIDER_H_
