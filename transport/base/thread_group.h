// Threads that come and go, and are joined together in the end.

#ifndef VERBENA_TRANSPORT_BASE_THREAD_GROUP_H_
#define VERBENA_TRANSPORT_BASE_THREAD_GROUP_H_

#include <pthread.h>

#include <functional>
#include <list>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "transport/base/mutex.h"

namespace verbena::base {

// Owns threads whose number changes. One that has ended is joined when a later
// one starts or ends; nobody but Join() waits for a thread that is still in the
// destructors of its thread_local objects, which may be anybody's code.
//
// Thread-safe. Destroy it after Join().
class ThreadGroup {
 public:
  // `name` is what tools such as `top -H` show for the threads. It has at most
  // 15 characters, and must outlive the threads.
  explicit ThreadGroup(const char* name) : name_(name) {}
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;
  ~ThreadGroup();

  // Runs `body` on a new thread. RESOURCE_EXHAUSTED, with the system's words,
  // if it gives us no thread: `body` is never called then.
  absl::Status Start(std::function<void()> body);

  // Waits until every thread has ended, those included that the last ones start
  // meanwhile. Not on a thread of the group.
  void Join();
  // As Join(), but waits for at most `longest`. Returns whether all have ended.
  bool JoinFor(absl::Duration longest);

 private:
  // Not std::thread, which throws where there is none.
  struct Thread {
    ThreadGroup* group;
    std::function<void()> body;
    pthread_t id;
    std::list<Thread>::iterator self;
  };

  static void* Run(void* thread);
  void JoinThoseGone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const char* const name_;
  Mutex mutex_;
  CondVar all_ended_;  // running_ is empty.
  std::list<Thread> running_ ABSL_GUARDED_BY(mutex_);
  // Threads that have released the lock for the last time, or are about to.
  std::list<Thread> ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::base

#endif  // VERBENA_TRANSPORT_BASE_THREAD_GROUP_H_
