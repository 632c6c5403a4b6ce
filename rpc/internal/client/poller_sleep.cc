#include "rpc/internal/client/poller_sleep.h"

namespace verbena::internal {

void PollerSleep::EnterAsHolder(transport::Poller* poller) {
  {
    const base::MutexLock lock(mutex_);
    while (watcher_sleeps_) {
      poller_->Wake();
      watcher_left_.Wait(mutex_);
    }
    poller_ = poller;
  }
  holder_sleeps_.store(true, std::memory_order_seq_cst);
}

void PollerSleep::LeaveAsHolder() {
  holder_sleeps_.store(false, std::memory_order_seq_cst);
  const base::MutexLock lock(mutex_);
  poller_ = nullptr;
}

void PollerSleep::WakeHolderSlow() {
  const base::MutexLock lock(mutex_);
  if (poller_ != nullptr) poller_->Wake();
}

void PollerSleep::EnterAsWatcher(transport::Poller* poller) {
  const base::MutexLock lock(mutex_);
  watcher_sleeps_ = true;
  poller_ = poller;
}

void PollerSleep::LeaveAsWatcher() {
  const base::MutexLock lock(mutex_);
  watcher_sleeps_ = false;
  poller_ = nullptr;
  watcher_left_.NotifyAll();
}

bool PollerSleep::WakeWatcher() {
  const base::MutexLock lock(mutex_);
  if (watcher_sleeps_) poller_->Wake();
  return watcher_sleeps_;
}

}  // namespace verbena::internal
