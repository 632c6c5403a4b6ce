// Owner of a protection domain.

#ifndef VERBENA_TRANSPORT_VERBS_PROTECTION_DOMAIN_H_
#define VERBENA_TRANSPORT_VERBS_PROTECTION_DOMAIN_H_

#include "absl/status/statusor.h"
#include "transport/verbs/verbs_handle.h"
#include "transport/verbs/verbs_ops.h"

namespace verbena::transport {

// Owns an ibv_pd: the memory regions and queue pairs that may be used together.
// The context must outlive it; everything made in it must be gone before it.
class ProtectionDomain : public VerbsHandle<ibv_pd, &VerbsOps::dealloc_pd> {
 public:
  static absl::StatusOr<ProtectionDomain> Create(const VerbsOps& ops,
                                                 ibv_context* context);

  ProtectionDomain() = default;

 private:
  using VerbsHandle::VerbsHandle;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_VERBS_PROTECTION_DOMAIN_H_
