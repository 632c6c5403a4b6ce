// The handles of completion queues and queue pairs, with room for what
// libibverbs calls their extended form.

#ifndef VERBENA_TRANSPORT_SOFT_QUEUES_VERBS_HANDLE_H_
#define VERBENA_TRANSPORT_SOFT_QUEUES_VERBS_HANDLE_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <functional>
#include <memory>

#include "transport/soft/base/live_handles.h"

namespace verbena::soft {

class ProtectionDomain;

// Returns 0 when a queue pair of these attributes can be made in `domain`, else
// the errno. Sets the capacities to those that it grants: no less than was
// asked for, and rounded up as NICs do, because programs count on that. If the
// attributes name a shared receive queue, those of the queue pair's own
// receives become 0: it has none.
int GrantInitAttributes(const ProtectionDomain& domain,
                        ibv_qp_init_attr& attributes);

// The part of a queue that only its extended form has; verbs above this folder
// define it.
class HandleExtension {
 public:
  HandleExtension() = default;
  HandleExtension(const HandleExtension&) = delete;
  HandleExtension& operator=(const HandleExtension&) = delete;
  virtual ~HandleExtension() = default;
};

// An ibv_cq that can be used as an ibv_cq_ex. The latter begins with the same
// fields, and users turn the one into the other by a cast.
struct CompletionQueueHandle : ibv_cq {
  CompletionQueueHandle() : ibv_cq() {}

  ibv_cq_ex* extended() {
    return reinterpret_cast<ibv_cq_ex*>(static_cast<ibv_cq*>(this));
  }

 private:
  alignas(ibv_cq_ex) std::byte rest_[sizeof(ibv_cq_ex) - sizeof(ibv_cq)] = {};

 public:
  // Null unless the queue was made by create_cq_ex.
  std::unique_ptr<HandleExtension> extension;

 private:
  const LiveHandle<ibv_cq> live_{this};
};
static_assert(offsetof(ibv_cq_ex, comp_mask) == sizeof(ibv_cq));

// An ibv_qp that can be used as an ibv_qp_ex in the same way. It begins in
// RESET and without a number. Its domain and its shared receive queue outlive
// it, and count it until it is gone.
struct QueuePairHandle : ibv_qp {
  QueuePairHandle(ProtectionDomain& domain, const ibv_qp_init_attr& attributes);
  QueuePairHandle(const QueuePairHandle&) = delete;
  QueuePairHandle& operator=(const QueuePairHandle&) = delete;
  ~QueuePairHandle();

  ibv_qp_ex* extended() {
    return reinterpret_cast<ibv_qp_ex*>(static_cast<ibv_qp*>(this));
  }

 private:
  alignas(ibv_qp_ex) std::byte rest_[sizeof(ibv_qp_ex) - sizeof(ibv_qp)] = {};

 public:
  // Null unless the queue pair was made by create_qp_ex with operations to
  // send.
  std::unique_ptr<HandleExtension> extension;
  // Called first by destroy_qp. The connection manager makes queue pairs for
  // users, who may destroy them by verbs. By this call it lets go of them.
  std::function<void()> before_destroy;

 private:
  const LiveHandle<ibv_qp> live_{this};
};
static_assert(offsetof(ibv_qp_ex, comp_mask) == sizeof(ibv_qp));

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_QUEUES_VERBS_HANDLE_H_
