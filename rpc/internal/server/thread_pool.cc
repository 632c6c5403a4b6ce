#include "rpc/internal/server/thread_pool.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/algorithm/container.h"
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
    for (Idle* idle = idle_.front(); idle != nullptr; idle = idle_.Next(idle)) {
      idle->wake.NotifyOne();
    }
  }
  group_.Join();
  const base::MutexLock lock(mutex_);
  CHECK_EQ(waiting_, 0);
}

ThreadPool::Use ThreadPool::use() const {
  const base::MutexLock lock(mutex_);
  return {.threads = threads_,
          .idle = static_cast<int>(idle_.size()),
          .queued = waiting_};
}

// Gives the task to an idle thread if lane and owner have room. Otherwise
// queues the task, unless the queue is full, and starts a thread if one is
// missing.
absl::Status ThreadPool::Submit(WorkerTask* task, Lane* lane,
                                const void* owner) {
  const base::MutexLock lock(mutex_);
  task->lane_ = lane;
  task->owner_ = owner;
  // A task does not overtake those of its owner that wait already.
  const bool in_share =
      InShare(owner) && !absl::c_linear_search(over_share_, owner);
  if (!idle_.empty() && lane->running_ < lane_limit_ && in_share) {
    NoteStart(task);
    GiveToIdle(task);
    return absl::OkStatus();
  }
  // A task that gets a thread as soon as one has started does not count
  // as waiting.
  const bool waits = lane->running_ >= lane_limit_ || !lane->waiting_.empty() ||
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
    WaitingFor(owner).PushBack(task);
    if (InShare(owner)) {
      ListInShare();
      GrowIfNeeded();
    }
    return absl::OkStatus();
  }
  AddToLane(task);
  GrowIfNeeded();
  if (threads_ > 0) return absl::OkStatus();
  // Nobody else waits: whoever came before was refused, too.
  lane->waiting_.Remove(task);
  ready_.Remove(lane);
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

void ThreadPool::NoteStart(WorkerTask* task) {
  ++running_;
  ++task->lane_->running_;
  if (task->owner_ != nullptr) ++owners_[task->owner_].running;
}

void ThreadPool::NoteEnd(const void* owner, Lane* lane) {
  --running_;
  --lane->running_;
  ListIfReady(lane);
  const auto found = owners_.find(owner);
  if (found != owners_.end() && --found->second.running == 0 &&
      found->second.waiting == nullptr) {
    owners_.erase(found);
  }
  // A thread that has become free widens the share of every owner.
  if (!over_share_.empty()) ListInShare();
}

base::IntrusiveList<WorkerTask>& ThreadPool::WaitingFor(const void* owner) {
  auto& waiting = owners_[owner].waiting;
  if (waiting == nullptr) {
    waiting = std::make_unique<base::IntrusiveList<WorkerTask>>();
    over_share_.push_back(owner);
  }
  return *waiting;
}

// Takes all of them, because ListInShare() adds a task at the end of its lane,
// where it must find none of its owner that was submitted later.
void ThreadPool::PutOff(const void* owner, Lane* lane) {
  base::IntrusiveList<WorkerTask>& waiting = WaitingFor(owner);
  uint32_t later = waiting.size();
  for (WorkerTask* task = lane->waiting_.front(); task != nullptr;) {
    WorkerTask* const following = lane->waiting_.Next(task);
    if (task->owner_ == owner) {
      lane->waiting_.Remove(task);
      waiting.PushBack(task);
    }
    task = following;
  }
  // Behind them go those that waited already.
  for (; later > 0; --later) waiting.PushBack(waiting.PopFront());
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
    if (InShare(name)) AddToLane(owner.waiting->PopFront());
    if (owner.waiting->empty()) {
      owner.waiting.reset();
    } else {
      over_share_.push_back(name);
    }
  }
  // The thread that called this takes the next task itself. Idle ones have to
  // be woken.
  while (!idle_.empty() && !ready_.empty()) {
    WorkerTask* const task = TakeFirst();
    if (task != nullptr) GiveToIdle(task);
  }
}

void ThreadPool::AddToLane(WorkerTask* task) {
  task->lane_->waiting_.PushBack(task);
  ListIfReady(task->lane_);
}

// Adds it at the end of the list: lanes take turns.
void ThreadPool::ListIfReady(Lane* lane) {
  if (!lane->is_linked() && !lane->waiting_.empty() &&
      lane->running_ < lane_limit_) {
    ready_.PushBack(lane);
  }
}

// A lane stands in the list only if its next task may run.
bool ThreadPool::LacksThread() const {
  return !ready_.empty() && idle_.empty() && threads_ < options_.most;
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
  while (WorkerTask* const task = Next()) {
    // The task may be gone soon.
    const void* const owner = task->owner_;
    Lane* const lane = task->lane_;
    lock.Unlock();
    task->Run();
    lock.Lock();
    NoteEnd(owner, lane);
  }
  --threads_;
}

// Prefers a task that waits in a lane. Stops only when no lane has one, so a
// pool that ends runs what is queued.
WorkerTask* ThreadPool::Next() {
  bool needed = true;
  while (true) {
    WorkerTask* task = nullptr;
    if (!ready_.empty()) {
      task = TakeFirst();
      // Tasks behind this one may still wait: then this thread starts the next.
      GrowIfNeeded();
    } else if (stop_ || !needed) {
      return nullptr;
    } else {
      task = WaitIdle(&needed);
    }
    if (task != nullptr) return task;
  }
}

// Takes the lane out of the list, and puts it back at the end if its next task
// may run. The task's owner may be over its share: then the task waits there.
WorkerTask* ThreadPool::TakeFirst() {
  Lane* const lane = ready_.PopFront();
  WorkerTask* task = lane->waiting_.front();
  if (InShare(task->owner_)) {
    lane->waiting_.Remove(task);
    --waiting_;
    NoteStart(task);
  } else {
    PutOff(task->owner_, lane);
    task = nullptr;
  }
  ListIfReady(lane);
  return task;
}

void ThreadPool::GiveToIdle(WorkerTask* task) {
  Idle* const idle = idle_.PopFront();
  idle->task = task;
  // With the lock held: the thread's part of the pool may be gone after it.
  idle->wake.NotifyOne();
}

// Waits on a condition variable of its own, so that a task wakes exactly one
// thread. A thread beyond `kept` waits for a limited time.
WorkerTask* ThreadPool::WaitIdle(bool* needed) {
  Idle idle;
  // At the front: the thread that became idle last gets the next task, and the
  // others can end.
  idle_.PushFront(&idle);
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
  // A thread that was given a task has been taken out of the list by
  // GiveToIdle().
  if (idle.task == nullptr) {
    idle_.Remove(&idle);
    // Looked at again: others may have ended in the meantime.
    *needed = threads_ <= options_.kept;
  }
  return idle.task;
}

}  // namespace verbena::internal
