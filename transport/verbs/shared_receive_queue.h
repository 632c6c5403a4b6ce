// Owner of a shared receive queue.

#ifndef VERBENA_TRANSPORT_VERBS_SHARED_RECEIVE_QUEUE_H_
#define VERBENA_TRANSPORT_VERBS_SHARED_RECEIVE_QUEUE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/verbs/protection_domain.h"
#include "transport/verbs/verbs_handle.h"
#include "transport/verbs/verbs_ops.h"

namespace verbena::transport {

// Owns an ibv_srq: receives that any queue pair attached to it may take. The
// protection domain must outlive it; the queue pairs must be gone before it.
//
// Not thread-safe.
class SharedReceiveQueue : public VerbsHandle<ibv_srq, &VerbsOps::destroy_srq> {
 public:
  // Holds `depth` receives of one scatter element each.
  static absl::StatusOr<SharedReceiveQueue> Create(const ProtectionDomain& pd,
                                                   uint32_t depth);

  SharedReceiveQueue() = default;

  // Posts a chain of receives with one doorbell. Their memory must stay
  // registered until they complete. Fails when the queue is full; then the
  // receives from `*refused` on are not posted. `refused` may be null.
  absl::Status PostReceive(ibv_recv_wr* chain, ibv_recv_wr** refused = nullptr);
  // Does the same for the receive queue of `qp`, which shares none.
  static absl::Status PostReceive(ibv_qp* qp, ibv_recv_wr* chain,
                                  ibv_recv_wr** refused);

 private:
  using VerbsHandle::VerbsHandle;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_VERBS_SHARED_RECEIVE_QUEUE_H_
