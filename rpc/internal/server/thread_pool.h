// The threads that run handlers which may block.

#ifndef VERBENA_RPC_INTERNAL_SERVER_THREAD_POOL_H_
#define VERBENA_RPC_INTERNAL_SERVER_THREAD_POOL_H_

#include <deque>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "transport/base/intrusive_list.h"
#include "transport/base/mutex.h"
#include "transport/base/thread_group.h"
#include "transport/polling/poller_threads.h"

namespace verbena::internal {

class WorkerLane;

// A task of a worker's. Owned by whoever submits it, and alive until Run()
// begins.
class WorkerTask : public transport::ShortTask,
                   public base::ListLink<WorkerTask> {
 protected:
  using ShortTask::ShortTask;
  ~WorkerTask() = default;

 private:
  friend class ThreadPool;

  // See ThreadPool::Submit().
  WorkerLane* lane_ = nullptr;
  const void* owner_ = nullptr;
};

// The waiting tasks of one kind, and the number of running ones. The caller
// owns the lane; only one ThreadPool may use its contents. Must outlive that
// pool.
class WorkerLane : public base::ListLink<WorkerLane> {
  friend class ThreadPool;

  base::IntrusiveList<WorkerTask> waiting_;
  int running_ = 0;
};

// Threads that run tasks, as many as there are tasks that block: they grow
// while tasks wait, up to a bound, and shrink again after a time without work.
//
// Tasks come in *lanes*, one for each method. Lanes take turns, and the tasks
// of one lane never have all the threads, so that calls of one method that all
// block do not hold another method's up.
//
// Tasks have *owners*, one for each connection. An owner has a share: another
// task of its begins only while those that run are fewer than seven times the
// threads that are left for others. Alone it comes to as many as a lane. Its
// further tasks wait where they hold no other owner's up.
//
// While tasks wait one thread at a time is started, and it starts the next one
// if tasks still wait when it runs. A burst of short tasks is over before that
// has led to many.
//
// Submit() and Tick() from any thread.
class ThreadPool {
 public:
  using Lane = WorkerLane;

  struct Options {
    int kept = 4;    // Threads that are kept, once they were needed.
    int most = 256;  // Threads at most; at least `kept`.
    // Tasks that may wait. One for which a thread can be started is not
    // refused, and counts until that runs.
    int queue_limit = 4096;
    // After how much time without a task a thread beyond `kept` ends.
    absl::Duration idle_time = absl::Seconds(5);
  };

  // REQUIRES: 0 < kept <= most, queue_limit > 0.
  explicit ThreadPool(const Options& options);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  // Runs what is queued, waits for all of it, and joins the threads.
  // REQUIRES: nobody is in Submit(), or will be.
  ~ThreadPool();

  // Has a worker run `task`; tasks of one lane and owner are begun in the order
  // submitted. `owner` is only compared, never accessed; null has no limit of
  // its share. RESOURCE_EXHAUSTED, with the name of the limit, if the pool does
  // not take the task.
  absl::Status Submit(WorkerTask* task, Lane* lane, const void* owner);

  // Starts the thread that is missing, if the system refused it when it was
  // needed. Returns when to call again, at the latest.
  absl::Time Tick();

  // The number of threads, of idle threads, and of tasks that wait for one.
  struct Use {
    int threads = 0;
    int idle = 0;
    int queued = 0;
  };
  Use use() const;
  int threads() const { return use().threads; }

 private:
  // A thread that waits for a task; on its stack.
  struct Idle : base::ListLink<Idle> {
    base::CondVar wake;
    WorkerTask* task = nullptr;  // The task it was given.
  };

  // An owner of which tasks run, or wait for its share.
  struct Owner {
    int running = 0;
    // Null if none waits. Later in their lanes than those that stand there.
    std::unique_ptr<base::IntrusiveList<WorkerTask>> waiting;
  };

  void Work();
  // Whether another task of `owner` may run.
  bool InShare(const void* owner) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `task` runs from now on.
  void NoteStart(WorkerTask* task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A task of these has run.
  void NoteEnd(const void* owner, Lane* lane)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the tasks that wait for the share of `owner`, to add to them.
  base::IntrusiveList<WorkerTask>& WaitingFor(const void* owner)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has the tasks of `owner` that stand in `lane` wait for its share.
  void PutOff(const void* owner, Lane* lane)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves the tasks that wait for their owner's share, and may run now, into
  // their lanes, and wakes idle threads.
  void ListInShare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds `task` to those of its lane that wait.
  void AddToLane(WorkerTask* task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits for a task, and counts it as running. Null: the thread is to end.
  WorkerTask* Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first task among the lanes, which runs from now on; null if it waits
  // for its share instead. REQUIRES: there is one.
  WorkerTask* TakeFirst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // REQUIRES: a thread is idle; the task counts as running.
  void GiveToIdle(WorkerTask* task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits among idle_ for one. Null: there may be one among the lanes, or
  // the thread is not needed any more, which *needed tells.
  WorkerTask* WaitIdle(bool* needed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Puts a lane whose next task may run into the list, unless it is there.
  void ListIfReady(Lane* lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a task waits that one thread more could run.
  bool LacksThread() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts a thread, if one is missing and none is being started.
  void GrowIfNeeded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const int lane_limit_;  // Tasks of one lane that may run at the same time.

  mutable base::Mutex mutex_;
  // Lanes of which a task waits and may run, in the order of their turns.
  base::IntrusiveList<Lane> ready_ ABSL_GUARDED_BY(mutex_);
  // Threads without work, the last one to become idle first: the others may
  // sleep for long, and end.
  base::IntrusiveList<Idle> idle_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<const void*, Owner> owners_ ABSL_GUARDED_BY(mutex_);
  // Owners of which tasks wait for their share.
  std::deque<const void*> over_share_ ABSL_GUARDED_BY(mutex_);
  int running_ ABSL_GUARDED_BY(mutex_) = 0;        // Tasks of all owners.
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;        // Tasks that do not run.
  int threads_ ABSL_GUARDED_BY(mutex_) = 0;        // Started and not ended.
  bool starting_ ABSL_GUARDED_BY(mutex_) = false;  // A new one has yet to run.
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  // The reason why the last thread could not be started, and when to try again.
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
  absl::Time start_again_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();

  base::ThreadGroup group_{"verbena-worker"};
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVER_THREAD_POOL_H_
