// The verbs of memory windows, for ibv_context::ops.

#ifndef VERBENA_TRANSPORT_SOFT_VERBS_MEMORY_WINDOW_VERBS_H_
#define VERBENA_TRANSPORT_SOFT_VERBS_MEMORY_WINDOW_VERBS_H_

#include <infiniband/verbs.h>

namespace verbena::soft {

// Each has the behaviour of the function of libibverbs with its name. What a
// window allows and when is in memory_windows.h.
ibv_mw* AllocMw(ibv_pd* pd, ibv_mw_type type);
int BindMw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);
int DeallocMw(ibv_mw* mw);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_VERBS_MEMORY_WINDOW_VERBS_H_
