#include "transport/faulty/fault_plan.h"

#include <cerrno>
#include <limits>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"
#include "transport/verbs/cm_event.h"

namespace verbena::transport {

FaultPlan::FaultPlan(uint64_t seed, uint32_t calls_per_fault)
    : random_(seed), calls_per_fault_(calls_per_fault) {
  CHECK(calls_per_fault > 0);
}

void FaultPlan::FailCall(absl::string_view function, uint64_t nth, int error,
                         uint64_t count) {
  CHECK(nth > 0 && count > 0 && error > 0);
  const base::MutexLock lock(mutex_);
  // `count` may be the largest number, for all calls from the nth on, so the
  // sum must not wrap around.
  const uint64_t last = count > std::numeric_limits<uint64_t>::max() - nth
                            ? std::numeric_limits<uint64_t>::max()
                            : nth + count - 1;
  call_faults_.push_back(
      {std::string(function), nth, last, error, absl::ZeroDuration()});
}

void FaultPlan::RemoveDevice(absl::string_view function, uint64_t nth) {
  CHECK(nth > 0);
  const base::MutexLock lock(mutex_);
  removal_ = {std::string(function), nth};
}

bool FaultPlan::device_is_gone() const {
  const base::MutexLock lock(mutex_);
  return gone_;
}

void FaultPlan::DelayCall(absl::string_view function, uint64_t nth,
                          absl::Duration time) {
  CHECK(nth > 0);
  const base::MutexLock lock(mutex_);
  call_faults_.push_back({std::string(function), nth, nth, 0, time});
}

void FaultPlan::DropCompletion(uint64_t nth) {
  const base::MutexLock lock(mutex_);
  completion_faults_[nth].drop = true;
}

void FaultPlan::DelayCompletion(uint64_t nth, uint32_t polls) {
  const base::MutexLock lock(mutex_);
  completion_faults_[nth].delay_polls = polls;
}

void FaultPlan::FailCompletion(uint64_t nth, ibv_wc_status status) {
  CHECK(status != IBV_WC_SUCCESS);
  const base::MutexLock lock(mutex_);
  completion_faults_[nth].status = status;
}

void FaultPlan::Misreport(uint64_t nth, Lie lie) {
  const base::MutexLock lock(mutex_);
  completion_faults_[nth].lie = lie;
}

void FaultPlan::Damage(ibv_wr_opcode opcode, uint32_t least, uint32_t most,
                       uint32_t offset) {
  // The damaged byte lies in the shortest request that fits.
  CHECK(offset < least && least <= most);
  const base::MutexLock lock(mutex_);
  damages_.push_back({opcode, least, most, offset});
}

// Carries out the first plan that fits, and forgets it. Plans behind it are for
// later work requests.
uint8_t* FaultPlan::OnWorkRequest(const ibv_send_wr& request) {
  // `offset` counts within one element.
  if (request.num_sge != 1) return nullptr;
  const base::MutexLock lock(mutex_);
  for (auto damage = damages_.begin(); damage != damages_.end(); ++damage) {
    if (damage->opcode != request.opcode ||
        request.sg_list->length < damage->least ||
        request.sg_list->length > damage->most) {
      continue;
    }
    Note(absl::StrCat("a work request of ", request.sg_list->length,
                      " bytes: damaged"));
    const uint64_t address = request.sg_list->addr + damage->offset;
    damages_.erase(damage);
    return reinterpret_cast<uint8_t*>(address);
  }
  return nullptr;
}

void FaultPlan::StallCompletions() {
  const base::MutexLock lock(mutex_);
  stalled_ = true;
}

void FaultPlan::ReleaseCompletions() {
  const base::MutexLock lock(mutex_);
  stalled_ = false;
}

void FaultPlan::DropEvent(rdma_cm_event_type type, uint64_t nth) {
  const base::MutexLock lock(mutex_);
  event_faults_[{type, nth}].drop = true;
}

void FaultPlan::ReplaceEvent(rdma_cm_event_type type, uint64_t nth,
                             rdma_cm_event_type with, int status) {
  // The new id of a request has no owner if the program never learns of it.
  CHECK(type != RDMA_CM_EVENT_CONNECT_REQUEST) << "drop it instead";
  const base::MutexLock lock(mutex_);
  event_faults_[{type, nth}].replacement = {with, status};
}

std::vector<std::string> FaultPlan::faults() const {
  const base::MutexLock lock(mutex_);
  return faults_;
}

uint64_t FaultPlan::calls(absl::string_view function) const {
  const base::MutexLock lock(mutex_);
  const auto found = calls_.find(function);
  return found == calls_.end() ? 0 : found->second;
}

uint64_t FaultPlan::completions() const {
  const base::MutexLock lock(mutex_);
  return completions_;
}

// If several faults are planned for one call, it is late by the sum of their
// times and fails with the error that was planned last.
int FaultPlan::OnCall(absl::string_view function, bool may_fail) {
  const base::MutexLock lock(mutex_);
  const uint64_t number = ++calls_[std::string(function)];
  // From this call on, the call itself included: the caller asks
  // device_is_gone() afterwards.
  if (number == removal_.second && function == removal_.first) {
    gone_ = true;
    Note(absl::StrCat(function, " call ", number, ": the device is gone"));
  }
  absl::Duration delay = absl::ZeroDuration();
  int error = 0;
  for (const CallFault& fault : call_faults_) {
    if (fault.function != function || number < fault.first ||
        number > fault.last) {
      continue;
    }
    if (fault.error != 0) error = fault.error;
    delay += fault.delay;
  }
  // Drawn last, so that a planned error stays as it was planned.
  if (error == 0 && may_fail && calls_per_fault_ > 0 &&
      random_() % calls_per_fault_ == 0) {
    error = ENOMEM;
  }
  if (error != 0) {
    Note(absl::StrCat(function, " call ", number, ": errno ", error));
  }
  if (delay > absl::ZeroDuration()) {
    Note(absl::StrCat(function, " call ", number, ": late by ",
                      absl::FormatDuration(delay)));
    // WaitUntil() lets go of the mutex meanwhile, so a call that is late holds
    // up no other.
    const uint64_t releases = releases_;
    const absl::Time until = base::Now() + delay;
    while (releases_ == releases && released_.WaitUntil(mutex_, until)) {
    }
  }
  return error;
}

// A count and not a flag: calls that are late from now on wait for the next
// release.
void FaultPlan::ReleaseCalls() {
  const base::MutexLock lock(mutex_);
  ++releases_;
  released_.NotifyAll();
}

FaultPlan::Completion FaultPlan::OnCompletion() {
  const base::MutexLock lock(mutex_);
  // Counted whether a fault is planned or not: a plan names the n-th completion
  // of all.
  const auto found = completion_faults_.find(++completions_);
  if (found == completion_faults_.end()) return {};
  const Completion& fault = found->second;
  Note(absl::StrCat("completion ", completions_,
                    fault.drop ? ": dropped" : ": late, failed or wrong"));
  return fault;
}

bool FaultPlan::completions_are_stalled() const {
  const base::MutexLock lock(mutex_);
  return stalled_;
}

// Counts events by their type: a plan names the n-th of a type.
FaultPlan::Event FaultPlan::OnEvent(rdma_cm_event_type type) {
  const base::MutexLock lock(mutex_);
  const uint64_t number = ++events_[type];
  const auto found = event_faults_.find({type, number});
  if (found == event_faults_.end()) return {};
  Note(absl::StrCat(CmEventName(type), " ", number,
                    found->second.drop ? ": dropped" : ": replaced"));
  return found->second;
}

void FaultPlan::Note(std::string fault) { faults_.push_back(std::move(fault)); }

}  // namespace verbena::transport
