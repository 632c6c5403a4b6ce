#include "rpc/internal/server/thread_pool.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"

namespace verbena::internal {
namespace {

// One in so many threads, but at least one of several, is kept from the tasks
// of one lane.
constexpr int kReservedShare = 8;

// How soon to try again when the system starts no thread.
constexpr absl::Duration kStartAgain = absl::Milliseconds(100);

}  // namespace

ThreadPool::ThreadPool(const Options& options)
    : options_(options),
      lane_limit_(std::max(
          1, options.most - std::max(1, options.most / kReservedShare))) {
  CHECK_GT(options.kept, 0);
  CHECK_LE(options.kept, options.most);
  CHECK_GT(options.queue_limit, 0);
}

ThreadPool::~ThreadPool() {
  {
    const base::MutexLock lock(mutex_);
    stop_ = true;
    for (Idle* idle = idle_; idle != nullptr; idle = idle->next) {
      idle->wake.NotifyOne();
    }
  }
  group_.Join();
  const base::MutexLock lock(mutex_);
  CHECK_EQ(waiting_, 0);
}

ThreadPool::Use ThreadPool::use() const {
  const base::MutexLock lock(mutex_);
  Use use = {.threads = threads_, .queued = waiting_};
  for (const Idle* idle = idle_; idle != nullptr; idle = idle->next) ++use.idle;
  return use;
}

absl::Status ThreadPool::Submit(transport::Task* task, Lane* lane) {
  const base::MutexLock lock(mutex_);
  if (idle_ != nullptr && lane->running_ < lane_limit_) {
    Idle* const idle = idle_;
    idle_ = idle->next;
    idle->task = task;
    idle->lane = lane;
    ++lane->running_;
    // With the lock held: the thread's part of the pool may be gone after it.
    idle->wake.NotifyOne();
    return absl::OkStatus();
  }
  // Who will have a thread as soon as one has started does not wait for others.
  const bool waits = lane->running_ >= lane_limit_ || lane->first_ != nullptr ||
                     threads_ == options_.most;
  if (waits && waiting_ >= options_.queue_limit) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the queue of calls that wait for a worker is full: ", waiting_,
        " wait, which is its limit (ServerBuilder::SetWorkerQueueLimit), for ",
        threads_, " workers, of at most ", options_.most,
        " (ServerBuilder::SetMaxWorkerThreads)"));
  }
  task->mpsc_next = nullptr;
  (lane->first_ == nullptr ? lane->first_ : lane->last_->mpsc_next) = task;
  lane->last_ = task;
  ++waiting_;
  ListIfReady(lane);
  GrowIfNeeded();
  if (threads_ > 0) return absl::OkStatus();
  // Nobody else waits: whoever came before was refused, too.
  lane->first_ = lane->last_ = nullptr;
  first_ = last_ = nullptr;
  lane->ready_ = false;
  --waiting_;
  return absl::ResourceExhaustedError(
      absl::StrCat("no worker could be started: ", refusal_.message()));
}

absl::Time ThreadPool::Tick() {
  const base::MutexLock lock(mutex_);
  GrowIfNeeded();
  return LacksThread() ? base::Now() + kStartAgain : absl::InfiniteFuture();
}

void ThreadPool::ListIfReady(Lane* lane) {
  if (lane->ready_ || lane->first_ == nullptr ||
      lane->running_ >= lane_limit_) {
    return;
  }
  lane->ready_ = true;
  lane->next_ = nullptr;
  (first_ == nullptr ? first_ : last_->next_) = lane;
  last_ = lane;
}

bool ThreadPool::LacksThread() const {
  return first_ != nullptr && idle_ == nullptr && threads_ < options_.most;
}

void ThreadPool::GrowIfNeeded() {
  if (starting_ || !LacksThread()) return;
  if (!refusal_.ok() && base::Now() < start_again_) return;
  refusal_ = group_.Start([this] { Work(); });
  if (refusal_.ok()) {
    ++threads_;
    starting_ = true;
  } else {
    start_again_ = base::Now() + kStartAgain;
  }
}

void ThreadPool::Work() {
  base::MutexLock lock(mutex_);
  starting_ = false;
  Lane* lane = nullptr;
  while (transport::Task* const task = Next(&lane)) {
    lock.Unlock();
    task->Run();
    lock.Lock();
    --lane->running_;
    ListIfReady(lane);
  }
  --threads_;
}

transport::Task* ThreadPool::Next(Lane** lane) {
  bool needed = true;
  while (first_ == nullptr) {
    if (stop_ || !needed) return nullptr;
    transport::Task* const task = WaitIdle(lane, &needed);
    if (task != nullptr) return task;
  }
  *lane = first_;
  first_ = (*lane)->next_;
  (*lane)->ready_ = false;
  auto* const task = static_cast<transport::Task*>((*lane)->first_);
  (*lane)->first_ = task->mpsc_next;
  --waiting_;
  ++(*lane)->running_;
  ListIfReady(*lane);
  GrowIfNeeded();
  return task;
}

transport::Task* ThreadPool::WaitIdle(Lane** lane, bool* needed) {
  Idle idle;
  idle.next = std::exchange(idle_, &idle);
  const bool limited = threads_ > options_.kept;
  const absl::Time until = base::Now() + options_.idle_time;
  bool in_time = true;
  while (idle.task == nullptr && in_time && !stop_) {
    if (limited) {
      in_time = idle.wake.WaitUntil(mutex_, until);
    } else {
      idle.wake.Wait(mutex_);
    }
  }
  *lane = idle.lane;
  if (idle.task == nullptr) {
    Remove(&idle);
    *needed = threads_ <= options_.kept;
  }
  return idle.task;
}

void ThreadPool::Remove(Idle* idle) {
  Idle** place = &idle_;
  while (*place != idle) place = &(*place)->next;
  *place = idle->next;
}

}  // namespace verbena::internal
