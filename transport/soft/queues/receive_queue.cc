#include "transport/soft/queues/receive_queue.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

namespace verbena::soft {

ReceiveQueue::ReceiveQueue(uint32_t requests_max, uint32_t entries_max)
    : requests_max_(requests_max),
      entries_max_(entries_max),
      mask_(std::bit_ceil(std::max(requests_max, 1u)) - 1),
      slots_(std::make_unique_for_overwrite<Slot[]>(size_t{mask_} + 1)),
      entries_(std::make_unique_for_overwrite<ibv_sge[]>((size_t{mask_} + 1) *
                                                         entries_max)) {}

// Moves the requests to a queue of the new depth, because the slot of a request
// depends on the depth.
bool ReceiveQueue::Resize(uint32_t requests_max) {
  if (size() > requests_max) return false;
  ReceiveQueue other(requests_max, entries_max_);
  for (; head_ != tail_; ++head_) {
    const uint32_t from = head_ & mask_;
    const uint32_t to = other.tail_++ & other.mask_;
    other.slots_[to] = slots_[from];
    std::copy_n(entries_.get() + size_t{from} * entries_max_,
                slots_[from].entry_count,
                other.entries_.get() + size_t{to} * entries_max_);
  }
  *this = std::move(other);
  return true;
}

SharedReceiveQueue::SharedReceiveQueue(ProtectionDomain& domain,
                                       const ibv_srq_init_attr& attributes)
    : ibv_srq(),
      domain_(&domain.original()),
      queue_(attributes.attr.max_wr, attributes.attr.max_sge) {
  context = domain.context;
  pd = &domain;
  srq_context = attributes.srq_context;
  ++domain.children();
}

SharedReceiveQueue::~SharedReceiveQueue() {
  Context::From(context)->async_events().Forget(async_source_);
  --ProtectionDomain::From(pd)->children();
}

// Checks both values against each other before it changes either: a call that
// is refused changes nothing.
int SharedReceiveQueue::Modify(const ibv_srq_attr& attributes, int mask) {
  if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0) return EINVAL;
  const bool resize = (mask & IBV_SRQ_MAX_WR) != 0;
  const bool set_limit = (mask & IBV_SRQ_LIMIT) != 0;
  if (resize &&
      (attributes.max_wr == 0 || attributes.max_wr > kQueueDepthMax)) {
    return EINVAL;
  }
  BiasedLock::Guard lock(lock_);
  const uint32_t depth =
      resize ? RoundedDepth(attributes.max_wr) : queue_.requests_max();
  const uint32_t limit = set_limit ? attributes.srq_limit : limit_;
  if (limit > depth || (resize && !queue_.Resize(depth))) return EINVAL;
  limit_ = limit;
  return 0;
}

void SharedReceiveQueue::Query(ibv_srq_attr& attributes) {
  BiasedLock::Guard lock(lock_);
  attributes.max_wr = queue_.requests_max();
  attributes.max_sge = queue_.entries_max();
  attributes.srq_limit = limit_;
}

void SharedReceiveQueue::RaiseLimitEvent() {
  Context::From(context)->async_events().Raise({&async_source_,
                                                static_cast<ibv_srq*>(this),
                                                IBV_EVENT_SRQ_LIMIT_REACHED});
}

}  // namespace verbena::soft
