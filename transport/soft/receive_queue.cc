#include "transport/soft/receive_queue.h"

#include <algorithm>
#include <bit>
#include <cerrno>

namespace verbena::soft {

ReceiveQueue::ReceiveQueue(uint32_t requests_max, uint32_t entries_max)
    : requests_max_(requests_max),
      entries_max_(entries_max),
      mask_(std::bit_ceil(std::max(requests_max, 1u)) - 1),
      slots_(std::make_unique_for_overwrite<Slot[]>(size_t{mask_} + 1)),
      entries_(std::make_unique_for_overwrite<ibv_sge[]>((size_t{mask_} + 1) *
                                                         entries_max)) {}

SharedReceiveQueue::SharedReceiveQueue(ProtectionDomain& domain,
                                       const ibv_srq_init_attr& attributes)
    : ibv_srq(),
      domain_(&domain.original()),
      requests_max_(attributes.attr.max_wr),
      entries_max_(attributes.attr.max_sge),
      queue_(requests_max_, entries_max_) {
  context = domain.context;
  pd = &domain;
  srq_context = attributes.srq_context;
  ++domain.children();
}

SharedReceiveQueue::~SharedReceiveQueue() {
  Context::From(context)->async_events().Forget(async_source_);
  --ProtectionDomain::From(pd)->children();
}

int SharedReceiveQueue::Modify(const ibv_srq_attr& attributes, int mask) {
  if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0) return EINVAL;
  if ((mask & IBV_SRQ_MAX_WR) != 0) return EOPNOTSUPP;
  if ((mask & IBV_SRQ_LIMIT) == 0) return 0;
  if (attributes.srq_limit > requests_max_) return EINVAL;
  BiasedLock::Guard lock(lock_);
  limit_ = attributes.srq_limit;
  return 0;
}

void SharedReceiveQueue::Query(ibv_srq_attr& attributes) {
  BiasedLock::Guard lock(lock_);
  attributes.max_wr = requests_max_;
  attributes.max_sge = entries_max_;
  attributes.srq_limit = limit_;
}

void SharedReceiveQueue::RaiseLimitEvent() {
  Context::From(context)->async_events().Raise({&async_source_,
                                                static_cast<ibv_srq*>(this),
                                                IBV_EVENT_SRQ_LIMIT_REACHED});
}

}  // namespace verbena::soft
