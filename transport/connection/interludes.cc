#include "transport/connection/interludes.h"

#include <algorithm>

#include "transport/base/check.h"

namespace verbena::transport {
namespace {

// The replies of tasks that run one after the other go out together, so a batch
// ends after so much time, as the processor's counter counts: some ten
// microseconds.
constexpr uint64_t kBatchCycles = 1 << 15;

}  // namespace

Interludes::~Interludes() { CHECK(empty()); }

InterludeTask* Interludes::TakeFirst() {
  InterludeTask* const task = first_;
  first_ = task->next_;
  --listed_;
  return task;
}

bool Interludes::Run() {
  uint64_t left = kBatchCycles;
  do {
    InterludeTask* const task = running_ = TakeFirst();
    const DriverSeat::Moment away = stand_ins_.GetUp();
    const uint64_t cycles = task->RunInterlude();
    if (ABSL_PREDICT_FALSE(!stand_ins_.SitDown(away))) return false;
    left -= std::min(left, cycles);
  } while (first_ != nullptr && left > 0);
  return true;
}

void Interludes::End() {
  CHECK(empty());
  stand_ins_.End();
}

bool Interludes::Await() {
  bool asleep;
  if (!stand_ins_.Await(&asleep)) return false;
  // What the task has posted, if anything, waits for this thread to poll, so
  // the task is there.
  if (asleep) running_->OnBlocked();
  while (!empty()) TakeFirst()->MoveElsewhere();
  return true;
}

}  // namespace verbena::transport
