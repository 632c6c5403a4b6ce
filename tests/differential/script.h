// The server's part of a schedule, and the record of its attempts.

#ifndef VERBENA_TESTS_DIFFERENTIAL_SCRIPT_H_
#define VERBENA_TESTS_DIFFERENTIAL_SCRIPT_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "tests/differential/schedule.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"

namespace verbena::differential {

// Thread-safe. `schedule` must outlive it.
class Script {
 public:
  explicit Script(const Schedule& schedule)
      : schedule_(schedule), attempts_(schedule.calls.size()) {}

  // Notes an attempt of the call, which says that it had `previous` before it.
  // Returns the handler's part. The handler calls End().
  std::pair<const Act*, size_t> Begin(size_t call, std::string previous) {
    const base::MutexLock lock(mutex_);
    ++open_;
    std::vector<std::string>& attempts = attempts_[call];
    attempts.push_back(std::move(previous));
    const size_t number = attempts.size() - 1;
    const std::vector<Act>& acts = schedule_.calls[call].acts;
    return {&acts[std::min(number, acts.size() - 1)], number};
  }
  void End() {
    const base::MutexLock lock(mutex_);
    --open_;
    changed_.NotifyAll();
  }
  // Waits a little, where the library tells nobody of a change.
  void Pause() {
    const base::MutexLock lock(mutex_);
    changed_.WaitUntil(mutex_, base::Now() + absl::Microseconds(200));
  }
  void AwaitIdle() {
    const base::MutexLock lock(mutex_);
    while (open_ > 0) changed_.Wait(mutex_);
  }
  std::string Attempts(size_t call) {
    const base::MutexLock lock(mutex_);
    return absl::StrJoin(attempts_[call], ",");
  }

  // Wants the server to die.
  void WantDeath() {
    const base::MutexLock lock(mutex_);
    wants_death_ = true;
    changed_.NotifyAll();
  }
  // Waits for WantDeath(). Returns false once there will be none.
  bool AwaitDeath() {
    const base::MutexLock lock(mutex_);
    while (!wants_death_ && !over_) changed_.Wait(mutex_);
    return std::exchange(wants_death_, false);
  }
  void SetOver() {
    const base::MutexLock lock(mutex_);
    over_ = true;
    changed_.NotifyAll();
  }

  const Schedule& schedule() const { return schedule_; }

 private:
  const Schedule& schedule_;
  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<std::vector<std::string>> attempts_ ABSL_GUARDED_BY(mutex_);
  int open_ ABSL_GUARDED_BY(mutex_) = 0;
  bool wants_death_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace verbena::differential

#endif  // VERBENA_TESTS_DIFFERENTIAL_SCRIPT_H_
