#include "transport/soft/extended/extended_queue_pair.h"

#include <cerrno>

#include "transport/soft/base/live_handles.h"
#include "transport/soft/datagram/datagram_verbs.h"
#include "transport/soft/extended/send_builder.h"
#include "transport/soft/manual/manual_connection.h"
#include "transport/soft/queues/queue_pair.h"
#include "transport/soft/verbs/refuse.h"

namespace verbena::soft {
namespace {

constexpr uint32_t kAttributes = IBV_QP_INIT_ATTR_PD |
                                 IBV_QP_INIT_ATTR_CREATE_FLAGS |
                                 IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

constexpr uint64_t kDatagramOperations =
    IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
constexpr uint64_t kUnreliableOperations =
    kDatagramOperations | IBV_QP_EX_WITH_RDMA_WRITE |
    IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV |
    IBV_QP_EX_WITH_BIND_MW;
constexpr uint64_t kReliableOperations =
    kUnreliableOperations | IBV_QP_EX_WITH_SEND_WITH_INV |
    IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

uint64_t OperationsOf(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_RC:
      return kReliableOperations;
    case IBV_QPT_UC:
      return kUnreliableOperations;
    case IBV_QPT_UD:
      return kDatagramOperations;
    default:
      return 0;
  }
}

// Returns 0, or the errno with which create_qp_ex refuses the attributes.
int RefuseExtended(const ibv_context* context,
                   const ibv_qp_init_attr_ex& attributes) {
  const uint32_t mask = attributes.comp_mask;
  if ((mask & ~kAttributes) != 0) return EOPNOTSUPP;
  if ((mask & IBV_QP_INIT_ATTR_PD) == 0 || !IsLive(attributes.pd) ||
      attributes.pd->context != context) {
    return EINVAL;
  }
  if ((mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 &&
      attributes.create_flags != 0) {
    return EOPNOTSUPP;
  }
  if ((mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0 &&
      (attributes.send_ops_flags & ~OperationsOf(attributes.qp_type)) != 0) {
    return EOPNOTSUPP;
  }
  return 0;
}

int PostAll(ibv_qp* qp, ibv_send_wr* chain) {
  return QueuePair::From(qp)->PostAll(chain);
}

}  // namespace

ibv_qp* CreateQpOfAnyType(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  return attributes->qp_type == IBV_QPT_UD ? CreateDatagramQp(pd, attributes)
                                           : CreateManualQp(pd, attributes);
}

ibv_qp* CreateQpEx(ibv_context* context, ibv_qp_init_attr_ex* attributes) {
  if (const int error = RefuseExtended(context, *attributes); error != 0) {
    return Refuse<ibv_qp>(error);
  }
  ibv_qp_init_attr ordinary = {
      attributes->qp_context, attributes->send_cq, attributes->recv_cq,
      attributes->srq,        attributes->cap,     attributes->qp_type,
      attributes->sq_sig_all,
  };
  ibv_qp* const qp = CreateQpOfAnyType(attributes->pd, &ordinary);
  if (qp == nullptr) return nullptr;
  // The user reads here what was granted.
  attributes->cap = ordinary.cap;
  if ((attributes->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0) {
    SendBuilder::Install(*QueuePair::From(qp), attributes->send_ops_flags,
                         ordinary.cap.max_inline_data, PostAll);
  }
  return qp;
}

ibv_qp_ex* ToExtendedQueuePair(ibv_qp* qp) {
  QueuePair* const queue_pair = QueuePair::From(qp);
  return queue_pair->extension == nullptr ? nullptr : queue_pair->extended();
}

}  // namespace verbena::soft
