#include "transport/soft/queues/queue_pair.h"

#include <utility>

#include "transport/soft/device/context.h"

namespace verbena::soft {

QueuePair::QueuePair(SoftDevice& device, ProtectionDomain& domain,
                     const ibv_qp_init_attr& attributes)
    : QueuePairHandle(domain, attributes),
      device_(device),
      init_attributes_(attributes),
      send_cq_(*CompletionQueue::From(attributes.send_cq)),
      recv_cq_(*CompletionQueue::From(attributes.recv_cq)) {}

QueuePair::~QueuePair() = default;

void QueuePair::Register(NumberKind kind) {
  qp_num = device_.queue_pairs().Add(this, kind);
  send_cq_.Attach(this);
  recv_cq_.Attach(this);
}

void QueuePair::Unregister() {
  if (qp_num != 0) device_.queue_pairs().Remove(qp_num);
}

// The engine lets go first, because its tick may push completions. Only then
// are the queues purged of them.
void QueuePair::DetachFromQueues() {
  if (is_engine_member_) device_.engine().RemoveMember(this);
  send_cq_.Detach(this);
  recv_cq_.Detach(this);
  Context::From(context)->async_events().Forget(async_source_);
}

void QueuePair::RaiseEvent(ibv_event_type type) {
  Context::From(context)->async_events().Raise(
      {&async_source_, handle(), type});
}

// Relaxed, because nothing else is read on the strength of the count: a poll
// that is missed is counted at the next look.
uint32_t QueuePair::PollsSinceLastLook() {
  const uint32_t polls = polls_.load(std::memory_order_relaxed);
  return polls - std::exchange(polls_seen_, polls);
}

void QueuePair::JoinEngine() {
  // A queue pair that was reset and is connected anew is a member already.
  if (is_engine_member_) return;
  device_.engine().AddMember(this);
  is_engine_member_ = true;
}

}  // namespace verbena::soft
