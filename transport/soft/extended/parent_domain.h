// Thread domains and parent domains.

#ifndef VERBENA_TRANSPORT_SOFT_EXTENDED_PARENT_DOMAIN_H_
#define VERBENA_TRANSPORT_SOFT_EXTENDED_PARENT_DOMAIN_H_

#include <infiniband/verbs.h>

namespace verbena::soft {

// The verbs of these names. A thread domain promises that one thread uses what
// is made in it; here that saves nothing, since locks cost their owner next to
// nothing. A parent domain stands for the protection domain it was made of, and
// what is made in one can be used with what is made in the other. Allocators of
// the user are refused with EOPNOTSUPP.

ibv_td* AllocTd(ibv_context* context, ibv_td_init_attr* attributes);
int DeallocTd(ibv_td* td);

ibv_pd* AllocParentDomain(ibv_context* context,
                          ibv_parent_domain_init_attr* attributes);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_EXTENDED_PARENT_DOMAIN_H_
