// The queues that librdmacm makes for an identifier.

#include <cerrno>
#include <utility>

#include "transport/soft/preload/cm_library.h"

namespace verbena::soft {

CmLibrary::~CmLibrary() {
  for (const auto& [context, pd] : pds_) verbs_.dealloc_pd(pd);
}

void CmLibrary::FillPd(rdma_cm_id* id) {
  if (id->verbs == nullptr || id->pd != nullptr) return;
  const base::MutexLock lock(mutex_);
  ibv_pd*& pd = pds_[id->verbs];
  if (pd == nullptr) pd = verbs_.alloc_pd(id->verbs);
  id->pd = pd;
}

// Makes those completion queues that the user has not given, and takes them
// back if the queue pair cannot be made.
int CmLibrary::CreateQp(rdma_cm_id* id, ibv_pd* pd,
                        ibv_qp_init_attr* attributes) {
  if (id->qp != nullptr || id->verbs == nullptr) return Fail(EINVAL);
  if (pd == nullptr) {
    FillPd(id);
    pd = id->pd;
  }
  if (CreateCqs(
          id, attributes->send_cq == nullptr ? attributes->cap.max_send_wr : 0,
          attributes->recv_cq == nullptr ? attributes->cap.max_recv_wr : 0) !=
      0) {
    return -1;
  }
  if (attributes->send_cq == nullptr) attributes->send_cq = id->send_cq;
  if (attributes->recv_cq == nullptr) attributes->recv_cq = id->recv_cq;
  if (attributes->srq == nullptr) attributes->srq = id->srq;
  if (cm_.create_qp(id, pd, attributes) == 0) return 0;
  const int error = errno;
  DestroyCqs(id);
  return Fail(error);
}

// The queue pair goes first, because it uses the completion queues.
void CmLibrary::DestroyQp(rdma_cm_id* id) {
  cm_.destroy_qp(id);
  DestroyCqs(id);
  FillPd(id);  // `id` has lost the protection domain of its queue pair.
}

int CmLibrary::CreateSrq(rdma_cm_id* id, ibv_pd* pd,
                         ibv_srq_init_attr* attributes) {
  if (id->srq != nullptr || id->verbs == nullptr) return Fail(EINVAL);
  if (pd == nullptr) {
    FillPd(id);
    pd = id->pd;
  }
  id->srq = verbs_.create_srq(pd, attributes);
  if (id->srq == nullptr) return -1;
  id->pd = pd;
  return 0;
}

void CmLibrary::DestroySrq(rdma_cm_id* id) {
  if (ibv_srq* srq = std::exchange(id->srq, nullptr)) verbs_.destroy_srq(srq);
}

int CmLibrary::CreateCqs(rdma_cm_id* id, uint32_t send_depth,
                         uint32_t receive_depth) {
  // The context of each queue is the identifier, where users look for it.
  const auto create = [&](uint32_t depth, ibv_comp_channel*& channel,
                          ibv_cq*& cq) {
    if (depth == 0) return true;
    channel = verbs_.create_comp_channel(id->verbs);
    if (channel == nullptr) return false;
    cq = verbs_.create_cq(id->verbs, static_cast<int>(depth), id, channel, 0);
    return cq != nullptr;
  };
  if (create(receive_depth, id->recv_cq_channel, id->recv_cq) &&
      create(send_depth, id->send_cq_channel, id->send_cq)) {
    return 0;
  }
  const int error = errno;
  DestroyCqs(id);
  return Fail(error);
}

void CmLibrary::DestroyCqs(rdma_cm_id* id) {
  // A user may have filled the four fields, with one queue for both.
  if (id->send_cq == id->recv_cq) id->send_cq = nullptr;
  if (id->send_cq_channel == id->recv_cq_channel) {
    id->send_cq_channel = nullptr;
  }
  for (ibv_cq** cq : {&id->recv_cq, &id->send_cq}) {
    if (*cq != nullptr) verbs_.destroy_cq(std::exchange(*cq, nullptr));
  }
  for (ibv_comp_channel** channel :
       {&id->recv_cq_channel, &id->send_cq_channel}) {
    if (*channel != nullptr) {
      verbs_.destroy_comp_channel(std::exchange(*channel, nullptr));
    }
  }
}

}  // namespace verbena::soft
