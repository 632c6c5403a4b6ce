#include "rpc/internal/server/thread_pool.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"

namespace verbena::internal {
namespace {

// The threads kept from the tasks of any one lane: one in kReservedShare, but
// at least one of several.
constexpr int kReservedShare = 8;

// A connection may have kOwnerShare times the workers that it leaves to others.
// Alone it gets as many as one lane, so a single client is no slower.
constexpr int kOwnerShare = 7;

// The pause after the system has refused a thread.
constexpr absl::Duration kStartAgain = absl::Milliseconds(100);

}  // namespace

// A pool of a single thread has no thread to reserve: its lanes may have that
// one.
ThreadPool::ThreadPool(const Options& options)
    : options_(options),
      lane_limit_(std::max(
          1, options.most - std::max(1, options.most / kReservedShare))) {
  CHECK_GT(options.kept, 0);
  CHECK_LE(options.kept, options.most);
  CHECK_GT(options.queue_limit, 0);
}

// Wakes all idle threads. Threads that run end by themselves when the lanes are
// empty, so nothing that was queued is lost.
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

// Gives the task to an idle thread if lane and owner have room. Otherwise
// queues the task, unless the queue is full, and starts a thread if one is
// missing.
absl::Status ThreadPool::Submit(WorkerTask* task, Lane* lane,
                                const void* owner) {
  const base::MutexLock lock(mutex_);
  task->owner_ = owner;
  const bool in_share = InShare(owner);
  if (idle_ != nullptr && lane->running_ < lane_limit_ && in_share) {
    NoteStart(task, lane);
    GiveToIdle(task, lane);
    return absl::OkStatus();
  }
  // A task that gets a thread as soon as one has started does not count
  // as waiting.
  const bool waits = lane->running_ >= lane_limit_ || lane->first_ != nullptr ||
                     threads_ == options_.most || !in_share;
  if (waits && waiting_ >= options_.queue_limit) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the queue of calls that wait for a worker is full: ", waiting_,
        " wait, which is its limit (ServerBuilder::SetWorkerQueueLimit), for ",
        threads_, " workers, of at most ", options_.most,
        " (ServerBuilder::SetMaxWorkerThreads)"));
  }
  // Counted as waiting in any case: the thread that takes the task counts it
  // down.
  ++waiting_;
  if (!in_share) {
    // Other tasks of its owner run, so there are threads.
    WaitForShare(task, lane);
    return absl::OkStatus();
  }
  AddToLane(task, lane);
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

// An owner without a running task is always in its share, so the owners in
// over_share_ are never more than the threads.
bool ThreadPool::InShare(const void* owner) const {
  const auto found = owners_.find(owner);
  return found == owners_.end() || found->second.running == 0 ||
         found->second.running < kOwnerShare * (options_.most - running_);
}

void ThreadPool::NoteStart(WorkerTask* task, Lane* lane) {
  ++running_;
  ++lane->running_;
  if (task->owner_ != nullptr) ++owners_[task->owner_].running;
}

void ThreadPool::NoteEnd(const void* owner, Lane* lane) {
  --running_;
  --lane->running_;
  ListIfReady(lane);
  const auto found = owners_.find(owner);
  if (found != owners_.end() && --found->second.running == 0 &&
      found->second.first == nullptr) {
    owners_.erase(found);
  }
  // A thread that has become free widens the share of every owner.
  if (!over_share_.empty()) ListInShare();
}

void ThreadPool::WaitForShare(WorkerTask* task, Lane* lane) {
  task->lane_ = lane;
  task->mpsc_next = nullptr;
  Owner& owner = owners_[task->owner_];
  if (owner.first == nullptr) over_share_.push_back(task->owner_);
  if (owner.first == nullptr) {
    owner.first = task;
  } else {
    owner.last->mpsc_next = task;
  }
  owner.last = task;
}

// An owner whose tasks wait has others that run, so there are no more of them
// than threads.
void ThreadPool::ListInShare() {
  // Looks once at each owner, and takes at most one task of each, so that the
  // owners take turns.
  for (size_t left = over_share_.size(); left > 0; --left) {
    const void* const name = over_share_.front();
    over_share_.pop_front();
    Owner& owner = owners_[name];
    if (InShare(name)) {
      WorkerTask* const task = owner.first;
      owner.first = task->next();
      AddToLane(task, static_cast<Lane*>(task->lane_));
    }
    if (owner.first != nullptr) over_share_.push_back(name);
  }
  // The thread that called this takes the next task itself. Idle ones have to
  // be woken.
  while (idle_ != nullptr && first_ != nullptr) {
    Lane* lane = nullptr;
    WorkerTask* const task = TakeFirst(&lane);
    if (task != nullptr) GiveToIdle(task, lane);
  }
}

void ThreadPool::AddToLane(WorkerTask* task, Lane* lane) {
  task->mpsc_next = nullptr;
  if (lane->first_ == nullptr) {
    lane->first_ = task;
  } else {
    lane->last_->mpsc_next = task;
  }
  lane->last_ = task;
  ListIfReady(lane);
}

void ThreadPool::ListIfReady(Lane* lane) {
  if (lane->ready_ || lane->first_ == nullptr ||
      lane->running_ >= lane_limit_) {
    return;
  }
  // At the end of the list: lanes take turns.
  lane->ready_ = true;
  lane->next_ = nullptr;
  (first_ == nullptr ? first_ : last_->next_) = lane;
  last_ = lane;
}

// A lane stands in the list only if its next task may run.
bool ThreadPool::LacksThread() const {
  return first_ != nullptr && idle_ == nullptr && threads_ < options_.most;
}

void ThreadPool::GrowIfNeeded() {
  // A thread at a time: a burst of short tasks is over before many have
  // started.
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

// Runs tasks until Next() finds that the thread is not needed. The mutex is
// held except while a task runs.
void ThreadPool::Work() {
  base::MutexLock lock(mutex_);
  // From now on Next() may start the next thread.
  starting_ = false;
  Lane* lane = nullptr;
  while (WorkerTask* const task = Next(&lane)) {
    const void* const owner = task->owner_;  // The task may be gone soon.
    lock.Unlock();
    task->Run();
    lock.Lock();
    NoteEnd(owner, lane);
  }
  --threads_;
}

// Prefers a task that waits in a lane. Stops only when no lane has one, so a
// pool that ends runs what is queued.
WorkerTask* ThreadPool::Next(Lane** lane) {
  bool needed = true;
  while (true) {
    WorkerTask* task = nullptr;
    if (first_ != nullptr) {
      task = TakeFirst(lane);
      // Tasks behind this one may still wait: then this thread starts the next.
      GrowIfNeeded();
    } else if (stop_ || !needed) {
      return nullptr;
    } else {
      task = WaitIdle(lane, &needed);
    }
    if (task != nullptr) return task;
  }
}

// Takes the lane out of the list, and puts it back at the end if its next task
// may run. The task's owner may be over its share: then the task waits there.
WorkerTask* ThreadPool::TakeFirst(Lane** lane) {
  *lane = first_;
  first_ = (*lane)->next_;
  (*lane)->ready_ = false;
  WorkerTask* const task = (*lane)->first_;
  (*lane)->first_ = task->next();
  const bool in_share = InShare(task->owner_);
  if (in_share) {
    --waiting_;
    NoteStart(task, *lane);
  } else {
    WaitForShare(task, *lane);
  }
  ListIfReady(*lane);
  return in_share ? task : nullptr;
}

void ThreadPool::GiveToIdle(WorkerTask* task, Lane* lane) {
  Idle* const idle = idle_;
  idle_ = idle->next;
  idle->task = task;
  idle->lane = lane;
  // With the lock held: the thread's part of the pool may be gone after it.
  idle->wake.NotifyOne();
}

// Waits on a condition variable of its own, so that a task wakes exactly one
// thread. A thread beyond `kept` waits for a limited time.
WorkerTask* ThreadPool::WaitIdle(Lane** lane, bool* needed) {
  Idle idle;
  // At the front: the thread that became idle last gets the next task, and the
  // others can end.
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
  // A thread that was given a task has been taken out of the list by
  // GiveToIdle().
  if (idle.task == nullptr) {
    Remove(&idle);
    // Looked at again: others may have ended in the meantime.
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
