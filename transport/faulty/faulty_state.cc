#include "transport/faulty/faulty_state.h"

#include <cerrno>
#include <cstdint>

#include "transport/base/check.h"

namespace verbena::transport {
namespace {

constexpr uint8_t kDamage = 1;  // The bit that is turned in a damaged byte.

// Turning this bit makes an unused number of one that is in use.
constexpr uint32_t kUnused = 0x400000;

// Changes one field so that it cannot be right. Lie::kTwice is left to
// Filter(), which hands the completion out again.
void Tell(FaultPlan::Lie lie, ibv_wc* completion) {
  switch (lie) {
    case FaultPlan::Lie::kUnknownNumber:
      completion->wr_id ^= kUnused;
      return;
    case FaultPlan::Lie::kTooLong:
      completion->byte_len = UINT32_MAX;
      return;
    case FaultPlan::Lie::kOtherOpcode:
      completion->opcode = IBV_WC_FETCH_ADD;
      return;
    case FaultPlan::Lie::kUnknownQueuePair:
      completion->qp_num ^= kUnused;
      return;
    default:
      return;
  }
}

}  // namespace

FaultyState& FaultyState::Get() {
  // Never destroyed: contexts that it has patched live as long as the process.
  static FaultyState& state = *new FaultyState();
  return state;
}

void FaultyState::Set(const Provider* base, FaultPlan* plan) {
  const base::MutexLock lock(mutex_);
  if (base == nullptr) {
    // Objects that are left would be used without a provider below.
    CHECK(owned_.empty()) << owned_.size()
                          << " objects of the faulty provider are left";
  }
  base_ = base;
  plan_ = plan;
}

const Provider& FaultyState::base() {
  const base::MutexLock lock(mutex_);
  CHECK(base_ != nullptr) << "there is no faulty provider any more";
  return *base_;
}

// The plan is asked without the mutex: a call that is late holds up no other.
int FaultyState::OnCall(absl::string_view function, bool may_fail) {
  FaultPlan* plan = nullptr;
  {
    const base::MutexLock lock(mutex_);
    plan = plan_;
  }
  return plan == nullptr ? 0 : plan->OnCall(function, may_fail);
}

bool FaultyState::DeviceIsGone() {
  const base::MutexLock lock(mutex_);
  return plan_ != nullptr && plan_->device_is_gone();
}

int FaultyState::OnVerb(absl::string_view function, bool may_fail) {
  const int error = OnCall(function, may_fail);
  // Asked after the call was counted, because this very call may be the one
  // that removes the device.
  return error == 0 && DeviceIsGone() ? EIO : error;
}

const DeviceNumbers* FaultyState::Numbers() {
  const base::MutexLock lock(mutex_);
  return plan_ == nullptr ? nullptr : plan_->numbers();
}

FaultPlan::Event FaultyState::OnEvent(rdma_cm_event_type type) {
  const base::MutexLock lock(mutex_);
  return plan_ == nullptr ? FaultPlan::Event() : plan_->OnEvent(type);
}

// Replaces only the five functions of the data path, so that all others of the
// device stay.
void FaultyState::Patch(ibv_context* context,
                        const ibv_context_ops& replacement) {
  const base::MutexLock lock(mutex_);
  // If the context was patched before, its pointers are our own, and must not
  // replace the originals.
  if (!originals_.emplace(context, context->ops).second) return;
  context->ops.poll_cq = replacement.poll_cq;
  context->ops.post_recv = replacement.post_recv;
  context->ops.post_send = replacement.post_send;
  context->ops.post_srq_recv = replacement.post_srq_recv;
  context->ops.req_notify_cq = replacement.req_notify_cq;
}

// Does nothing for a context that was never seen.
void FaultyState::Forget(ibv_context* context) {
  const base::MutexLock lock(mutex_);
  const auto found = originals_.find(context);
  if (found == originals_.end()) return;
  context->ops = found->second;
  originals_.erase(found);
}

ibv_context_ops FaultyState::Original(const ibv_context* context) {
  const base::MutexLock lock(mutex_);
  const auto found = originals_.find(context);
  CHECK(found != originals_.end()) << "a context that was never patched";
  return found->second;
}

void FaultyState::Own(const void* object) {
  const base::MutexLock lock(mutex_);
  owned_.insert(object);
}

void FaultyState::OwnQueuePair(ibv_qp* qp) {
  const base::MutexLock lock(mutex_);
  owned_.insert(qp);
  queue_pairs_[qp->qp_num] = qp;
}

bool FaultyState::Disown(const void* object) {
  const base::MutexLock lock(mutex_);
  const bool owned = owned_.erase(object) > 0;
  // `object` may be of any kind, and is only compared.
  held_.erase(static_cast<const ibv_cq*>(object));
  std::erase_if(queue_pairs_,
                [object](const auto& entry) { return entry.second == object; });
  return owned;
}

bool FaultyState::Owns(const void* object) {
  const base::MutexLock lock(mutex_);
  return owned_.contains(object);
}

size_t FaultyState::owned() {
  const base::MutexLock lock(mutex_);
  return owned_.size();
}

// Damages a SEND or WRITE in place, before it is posted, and notes a READ for
// Filter().
void FaultyState::OnPostSend(const ibv_qp* qp, const ibv_send_wr* request) {
  const base::MutexLock lock(mutex_);
  if (plan_ == nullptr) return;
  for (; request != nullptr; request = request->next) {
    uint8_t* const byte = plan_->OnWorkRequest(*request);
    if (byte == nullptr) continue;
    if (request->opcode == IBV_WR_RDMA_READ) {
      // The bytes of a READ are not there yet: Filter() damages them when they
      // are.
      damaged_reads_[{qp->qp_num, request->wr_id}] = byte;
    } else {
      *byte ^= kDamage;
    }
  }
}

// All that the device has reported is counted and held first. A completion that
// is late holds up those behind it, because a queue keeps its order.
int FaultyState::Filter(ibv_cq* cq, int count, const ibv_wc* reported,
                        int reported_count, ibv_wc* out) {
  const base::MutexLock lock(mutex_);
  std::deque<Held>& held = held_[cq];
  for (int i = 0; i < reported_count; ++i) {
    Held next = {reported[i], 0};
    if (reported[i].opcode == IBV_WC_RDMA_READ) {
      const auto damaged =
          damaged_reads_.find({reported[i].qp_num, reported[i].wr_id});
      if (damaged != damaged_reads_.end()) {
        *damaged->second ^= kDamage;
        damaged_reads_.erase(damaged);
      }
    }
    const FaultPlan::Completion fault =
        plan_ == nullptr ? FaultPlan::Completion() : plan_->OnCompletion();
    if (fault.drop) continue;
    next.polls_left = fault.delay_polls;
    if (fault.status != IBV_WC_SUCCESS) {
      next.completion.status = fault.status;
      // A device that reports an error leaves the queue pair in the error
      // state.
      Break(next.completion.qp_num);
    }
    Tell(fault.lie, &next.completion);
    held.push_back(next);
    if (fault.lie == FaultPlan::Lie::kTwice) held.push_back(next);
  }
  // After they were counted: stalled completions stay in `held`, in their
  // order.
  if (plan_ != nullptr && plan_->completions_are_stalled()) return 0;
  int handed_out = 0;
  while (handed_out < count && !held.empty()) {
    if (held.front().polls_left > 0) {
      --held.front().polls_left;
      break;
    }
    out[handed_out++] = held.front().completion;
    held.pop_front();
  }
  return handed_out;
}

void FaultyState::EndDelays(const ibv_cq* cq) {
  const base::MutexLock lock(mutex_);
  const auto found = held_.find(cq);
  if (found == held_.end()) return;
  // All of them, so that one poll after arming finds the queue as the device
  // has it.
  for (Held& held : found->second) held.polls_left = 0;
}

// Calls the provider below, so that the plan neither counts nor fails this
// call.
void FaultyState::Break(uint32_t qp_num) {
  const auto found = queue_pairs_.find(qp_num);
  if (found == queue_pairs_.end() || base_ == nullptr) return;
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_ERR;
  CHECK_EQ(base_->verbs.modify_qp(found->second, &attributes, IBV_QP_STATE), 0);
}

}  // namespace verbena::transport
