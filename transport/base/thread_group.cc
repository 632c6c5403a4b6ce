#include "transport/base/thread_group.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"

namespace verbena::base {

ThreadGroup::~ThreadGroup() {
  const MutexLock lock(mutex_);
  CHECK(running_.empty() && ended_.empty()) << "Join() was not called";
}

// Joins threads that have ended before it starts another, so that a group of
// many short threads does not grow.
absl::Status ThreadGroup::Start(std::function<void()> body) {
  const MutexLock lock(mutex_);
  JoinThoseGone();
  // The element is complete before the thread runs, because Run() moves it to
  // ended_ by `self`. The lock keeps others from `id` until pthread_create()
  // has written it.
  const auto self = running_.insert(running_.end(), Thread());
  *self = {this, std::move(body), pthread_t(), self};
  const int error = pthread_create(&self->id, nullptr, Run, &*self);
  if (error == 0) return absl::OkStatus();
  running_.erase(self);
  return absl::ResourceExhaustedError(absl::StrCat(
      "the system cannot start another thread: ",
      std::generic_category().message(error),
      " (see `ulimit -u` and `ulimit -v`, and pids.max of the control "
      "group)"));
}

void* ThreadGroup::Run(void* thread) {
  Thread& self = *static_cast<Thread*>(thread);
  ThreadGroup& group = *self.group;
  CHECK_EQ(pthread_setname_np(pthread_self(), group.name_), 0);
  self.body();
  const MutexLock lock(group.mutex_);
  // Joins threads that ended earlier. A later thread, or Join(), joins this
  // one.
  group.JoinThoseGone();
  group.ended_.splice(group.ended_.end(), group.running_, self.self);
  if (group.running_.empty()) group.all_ended_.NotifyAll();
  return nullptr;
}

// Waits for nobody: see the header.
void ThreadGroup::JoinThoseGone() {
  ended_.remove_if([](const Thread& thread) {
    const int error = pthread_tryjoin_np(thread.id, nullptr);
    // EBUSY: the thread still runs destructors of its thread_local objects. A
    // later call joins it.
    CHECK(error == 0 || error == EBUSY) << "pthread_tryjoin_np: " << error;
    return error == 0;
  });
}

// Repeats until a look finds no thread at all, because the last destructors of
// a thread may start another one.
void ThreadGroup::Join() {
  while (true) {
    std::list<Thread> ended;
    {
      const MutexLock lock(mutex_);
      while (!running_.empty()) all_ended_.Wait(mutex_);
      ended.swap(ended_);
    }
    if (ended.empty()) return;
    // Without the lock: a destructor may start another thread.
    for (const Thread& thread : ended) {
      CHECK_EQ(pthread_join(thread.id, nullptr), 0);
    }
  }
}

// Waits for the bodies by the deadline. Join() then has only threads to wait
// for whose bodies have ended.
bool ThreadGroup::JoinFor(absl::Duration longest) {
  const absl::Time deadline = Now() + longest;
  {
    const MutexLock lock(mutex_);
    while (!running_.empty()) {
      if (!all_ended_.WaitUntil(mutex_, deadline)) break;
    }
    if (!running_.empty()) return false;
  }
  Join();
  return true;
}

}  // namespace verbena::base
