// The threads that run handlers which may block.

#ifndef VERBENA_RPC_INTERNAL_SERVER_THREAD_POOL_H_
#define VERBENA_RPC_INTERNAL_SERVER_THREAD_POOL_H_

#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"

namespace verbena::internal {

// Something for a worker thread to do. Owned by whoever submits it, and alive
// until RunOnWorker() is entered, which may destroy it.
class WorkerTask {
 public:
  virtual void RunOnWorker() = 0;

 protected:
  ~WorkerTask() = default;

 private:
  friend class ThreadPool;

  WorkerTask* next_ = nullptr;  // In the queue.
};

// A fixed number of threads and a bounded queue. Submit() from any thread.
class ThreadPool {
 public:
  // REQUIRES: threads > 0, queue_limit > 0.
  ThreadPool(int threads, int queue_limit);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  // Runs what is queued, waits for all of it, and joins the threads.
  // REQUIRES: nobody is in Submit(), or will be.
  ~ThreadPool();

  // Has a worker run `task`, in the order submitted. Returns false, and takes
  // nothing, when `queue_limit` tasks wait already.
  [[nodiscard]] bool Submit(WorkerTask* task);

 private:
  void Work();

  const int queue_limit_;  // Most tasks that may wait.

  base::Mutex mutex_;
  base::CondVar work_or_stop_;
  // The queue of tasks that wait, oldest first; both null when it is empty.
  WorkerTask* first_ ABSL_GUARDED_BY(mutex_) = nullptr;
  WorkerTask* last_ ABSL_GUARDED_BY(mutex_) = nullptr;
  int queued_ ABSL_GUARDED_BY(mutex_) = 0;  // Tasks in the queue.
  int idle_ ABSL_GUARDED_BY(mutex_) = 0;    // Threads that wait for one.
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;

  std::vector<std::thread> threads_;  // Last: they use all of the above.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVER_THREAD_POOL_H_
