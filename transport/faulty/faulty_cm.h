// The wrapped connection manager of a faulty provider.

#ifndef VERBENA_TRANSPORT_FAULTY_FAULTY_CM_H_
#define VERBENA_TRANSPORT_FAULTY_FAULTY_CM_H_

#include "transport/verbs/cm_ops.h"

namespace verbena::transport {

// `base` with every entry that a plan can name wrapped.
CmOps FaultyCm(const CmOps& base);

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_FAULTY_FAULTY_CM_H_
