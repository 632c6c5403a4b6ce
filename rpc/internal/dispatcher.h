// The threads that run handlers which may block.

#ifndef VERBENA_RPC_INTERNAL_DISPATCHER_H_
#define VERBENA_RPC_INTERNAL_DISPATCHER_H_

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace verbena::internal {

// Something for a worker thread to do. Owned by whoever submits it, and alive
// until RunOnWorker() is entered, which may destroy it.
class WorkerTask {
 public:
  virtual void RunOnWorker() = 0;

 protected:
  ~WorkerTask() = default;

 private:
  friend class Dispatcher;

  WorkerTask* next_ = nullptr;  // In the queue.
};

// A fixed number of threads and a bounded queue. Submit() from any thread.
class Dispatcher {
 public:
  // REQUIRES: threads > 0, queue_limit > 0.
  Dispatcher(int threads, int queue_limit);
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;
  // Runs what is queued, waits for all of it, and joins the threads.
  // REQUIRES: nobody is in Submit(), or will be.
  ~Dispatcher();

  // Has a worker run `task`, in the order submitted. Returns false, and takes
  // nothing, when `queue_limit` tasks wait already.
  [[nodiscard]] bool Submit(WorkerTask* task);

 private:
  void Work();

  const int queue_limit_;

  std::mutex mutex_;  // Protects what follows.
  std::condition_variable work_or_stop_;
  WorkerTask* first_ = nullptr;  // Of the queue; null when it is empty.
  WorkerTask* last_ = nullptr;
  int queued_ = 0;
  int idle_ = 0;  // Threads that wait for work_or_stop_.
  bool stop_ = false;

  std::vector<std::thread> threads_;  // Last: they use all of the above.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_DISPATCHER_H_
