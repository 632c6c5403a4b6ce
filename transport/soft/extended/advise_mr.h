// Bringing the pages of memory on demand in.

#ifndef VERBENA_TRANSPORT_SOFT_EXTENDED_ADVISE_MR_H_
#define VERBENA_TRANSPORT_SOFT_EXTENDED_ADVISE_MR_H_

#include <infiniband/verbs.h>

#include <cstdint>

namespace verbena::soft {

// ibv_advise_mr. If some pages cannot be brought in, returns EFAULT with
// IBV_ADVISE_MR_FLAG_FLUSH, and 0 without it.
int AdviseMr(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags,
             ibv_sge* entries, uint32_t count);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_EXTENDED_ADVISE_MR_H_
