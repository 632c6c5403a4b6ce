#include "rpc/internal/server/thread_pool.h"

#include "transport/base/check.h"

namespace verbena::internal {

ThreadPool::ThreadPool(int threads, int queue_limit)
    : queue_limit_(queue_limit) {
  CHECK_GT(threads, 0);
  CHECK_GT(queue_limit, 0);
  threads_.reserve(threads);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

ThreadPool::~ThreadPool() {
  {
    const base::MutexLock lock(mutex_);
    stop_ = true;
  }
  work_or_stop_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
  const base::MutexLock lock(mutex_);
  CHECK_EQ(queued_, 0);
}

bool ThreadPool::Submit(WorkerTask* task) {
  bool wake;
  {
    const base::MutexLock lock(mutex_);
    if (queued_ == queue_limit_) return false;
    task->next_ = nullptr;
    (first_ == nullptr ? first_ : last_->next_) = task;
    last_ = task;
    ++queued_;
    wake = idle_ > 0;
  }
  if (wake) work_or_stop_.NotifyOne();
  return true;
}

void ThreadPool::Work() {
  base::MutexLock lock(mutex_);
  while (true) {
    while (first_ == nullptr && !stop_) {
      ++idle_;
      work_or_stop_.Wait(mutex_);
      --idle_;
    }
    if (first_ == nullptr) return;
    WorkerTask* task = first_;
    first_ = task->next_;
    --queued_;
    lock.Unlock();
    task->RunOnWorker();
    lock.Lock();
  }
}

}  // namespace verbena::internal
