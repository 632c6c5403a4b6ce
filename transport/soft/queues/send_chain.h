// The parts of posting that send queues of all types have in common.

#ifndef VERBENA_TRANSPORT_SOFT_QUEUES_SEND_CHAIN_H_
#define VERBENA_TRANSPORT_SOFT_QUEUES_SEND_CHAIN_H_

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "transport/soft/base/copy_bytes.h"

namespace verbena::soft {

// Whether a queue with room for that many requests would take the whole chain:
// returns 0, or else ENOMEM, or the first errno that `check` returns for a
// request.
template <typename Check>
int CheckChain(const ibv_send_wr* chain, uint32_t room, Check check) {
  for (; chain != nullptr; chain = chain->next, --room) {
    if (room == 0) return ENOMEM;
    if (const int error = check(*chain); error != 0) return error;
  }
  return 0;
}

// Gathers the data of an inline request at `to`, which has room for it.
inline void CopyInline(const ibv_send_wr& wr, std::byte* to) {
  for (int i = 0; i < wr.num_sge; ++i) {
    CopyBytes(to, reinterpret_cast<const void*>(wr.sg_list[i].addr),
              wr.sg_list[i].length);
    to += wr.sg_list[i].length;
  }
}

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_QUEUES_SEND_CHAIN_H_
