#include "transport/verbs/shared_receive_queue.h"

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "transport/verbs/error.h"

namespace verbena::transport {

absl::StatusOr<SharedReceiveQueue> SharedReceiveQueue::Create(
    const ProtectionDomain& pd, uint32_t depth) {
  ibv_srq_init_attr attributes = {};
  attributes.attr.max_wr = depth;
  // Each receive is one buffer of kBufferBytes.
  attributes.attr.max_sge = 1;
  ibv_srq* const srq = pd.ops().create_srq(pd.get(), &attributes);
  if (srq == nullptr) {
    return ErrnoStatus("create_srq", absl::StrCat("depth ", depth), errno);
  }
  return SharedReceiveQueue(pd.ops(), srq);
}

absl::Status SharedReceiveQueue::PostReceive(ibv_recv_wr* chain,
                                             ibv_recv_wr** refused) {
  ibv_recv_wr* bad = chain;  // Some devices do not say which was refused.
  const int error = ibv_post_srq_recv(get(), chain, &bad);
  if (error == 0) return absl::OkStatus();
  if (refused != nullptr) *refused = bad;
  return ErrnoStatus("post_srq_recv", "", error);
}

absl::Status SharedReceiveQueue::PostReceive(ibv_qp* qp, ibv_recv_wr* chain,
                                             ibv_recv_wr** refused) {
  // As above: the device may not say which was refused.
  *refused = chain;
  const int error = ibv_post_recv(qp, chain, refused);
  if (error == 0) return absl::OkStatus();
  return ErrnoStatus("post_recv", "", error);
}

}  // namespace verbena::transport
