#include "transport/soft/queues/receive_source.h"

namespace verbena::soft {

ReceiveSource::ReceiveSource(ProtectionDomain& domain,
                             const ibv_qp_init_attr& attributes)
    : srq_(attributes.srq == nullptr
               ? nullptr
               : SharedReceiveQueue::From(attributes.srq)),
      domain_(srq_ != nullptr ? srq_->domain() : &domain.original()),
      shared_(srq_),
      unshared_(&own_),
      own_(attributes.cap.max_recv_wr, attributes.cap.max_recv_sge),
      nothing_(0, 0) {}

void ReceiveSource::Withhold(uint32_t times) {
  const base::MutexLock lock(withheld_mutex_);
  times_withheld_ = times;
  Lead(times != 0);
}

// Take() has found nothing: counts that, if requests are withheld.
void ReceiveSource::OnNothing() {
  // The queue is just empty: nothing is withheld.
  if (unshared_.load(std::memory_order_relaxed) == &own_) return;
  const base::MutexLock lock(withheld_mutex_);
  if (times_withheld_ == 0 || times_withheld_ == UINT32_MAX) return;
  if (--times_withheld_ == 0) Lead(false);
}

// Relaxed, because it does not matter at which request a fault begins.
void ReceiveSource::Lead(bool to_nothing) {
  shared_.store(to_nothing ? nullptr : srq_, std::memory_order_relaxed);
  unshared_.store(to_nothing ? &nothing_ : &own_, std::memory_order_relaxed);
}

}  // namespace verbena::soft
