#include "rpc/internal/dispatcher.h"

#include "transport/base/check.h"

namespace verbena::internal {

Dispatcher::Dispatcher(int threads, int queue_limit)
    : queue_limit_(queue_limit) {
  CHECK_GT(threads, 0);
  CHECK_GT(queue_limit, 0);
  threads_.reserve(threads);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

Dispatcher::~Dispatcher() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  work_or_stop_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  CHECK_EQ(queued_, 0);
}

bool Dispatcher::Submit(WorkerTask* task) {
  bool wake;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (queued_ == queue_limit_) return false;
    task->next_ = nullptr;
    (first_ == nullptr ? first_ : last_->next_) = task;
    last_ = task;
    ++queued_;
    wake = idle_ > 0;
  }
  if (wake) work_or_stop_.notify_one();
  return true;
}

void Dispatcher::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    while (first_ == nullptr && !stop_) {
      ++idle_;
      work_or_stop_.wait(lock);
      --idle_;
    }
    if (first_ == nullptr) return;
    WorkerTask* task = first_;
    first_ = task->next_;
    --queued_;
    lock.unlock();
    task->RunOnWorker();
    lock.lock();
  }
}

}  // namespace verbena::internal
