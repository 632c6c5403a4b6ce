#include "transport/verbs/protection_domain.h"

#include <cerrno>

#include "transport/verbs/error.h"

namespace verbena::transport {

absl::StatusOr<ProtectionDomain> ProtectionDomain::Create(
    const VerbsOps& ops, ibv_context* context) {
  // A failed alloc_pd has no object to name, so the error names the device.
  ibv_pd* const pd = ops.alloc_pd(context);
  if (pd == nullptr) {
    return ErrnoStatus("alloc_pd", ops.get_device_name(context->device), errno);
  }
  return ProtectionDomain(ops, pd);
}

}  // namespace verbena::transport
