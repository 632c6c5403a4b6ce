// The paths that can start at this device.

#ifndef VERBENA_TRANSPORT_SOFT_ADDRESS_LEGAL_PATH_H_
#define VERBENA_TRANSPORT_SOFT_ADDRESS_LEGAL_PATH_H_

#include <infiniband/verbs.h>

#include "transport/soft/address/gid_table.h"

namespace verbena::soft {

// Whether the path that `attributes` describe can start at this device: a port
// of it, a global route, a source GID that `gids` has, a destination of the
// same family.
bool PathIsLegal(const ibv_ah_attr& attributes, GidTable& gids);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_ADDRESS_LEGAL_PATH_H_
