#include "transport/soft/extended/parent_domain.h"

#include <atomic>
#include <cerrno>

#include "transport/soft/base/live_handles.h"
#include "transport/soft/device/context.h"
#include "transport/soft/verbs/refuse.h"

namespace verbena::soft {
namespace {

struct ThreadDomain final : ibv_td {
  static ThreadDomain* From(ibv_td* td) {
    return static_cast<ThreadDomain*>(td);
  }

  std::atomic<int> children{0};  // Parent domains.

 private:
  const LiveHandle<ibv_td> live_{this};
};

}  // namespace

ibv_td* AllocTd(ibv_context* context, ibv_td_init_attr* attributes) {
  if (attributes->comp_mask != 0) {
    return Refuse<ibv_td>(EINVAL);
  }
  auto* const domain = new ThreadDomain;
  domain->context = context;
  ++Context::From(context)->children();
  return domain;
}

int DeallocTd(ibv_td* td) {
  if (ThreadDomain::From(td)->children != 0) return EBUSY;
  --Context::From(td->context)->children();
  delete ThreadDomain::From(td);
  return 0;
}

ibv_pd* AllocParentDomain(ibv_context* context,
                          ibv_parent_domain_init_attr* attributes) {
  // The user's context is passed to allocators alone, so it may be ignored.
  if ((attributes->comp_mask & ~IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) != 0) {
    return Refuse<ibv_pd>(EOPNOTSUPP);
  }
  ibv_pd* const pd = attributes->pd;
  ibv_td* const td = attributes->td;
  if (!IsLive(pd) || pd->context != context ||
      ProtectionDomain::From(pd)->is_parent() ||
      (td != nullptr && (!IsLive(td) || td->context != context))) {
    return Refuse<ibv_pd>(EINVAL);
  }
  ++Context::From(context)->children();
  return new ProtectionDomain(
      *ProtectionDomain::From(pd),
      td == nullptr ? nullptr : &ThreadDomain::From(td)->children);
}

}  // namespace verbena::soft
