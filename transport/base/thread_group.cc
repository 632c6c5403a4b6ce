#include "transport/base/thread_group.h"

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"

namespace verbena::base {
namespace {

void JoinAll(std::list<std::thread>& threads) {
  for (std::thread& thread : threads) thread.join();
  threads.clear();
}

}  // namespace

ThreadGroup::~ThreadGroup() {
  const MutexLock lock(mutex_);
  CHECK(running_.empty() && ended_.empty()) << "Join() was not called";
}

absl::Status ThreadGroup::Start(std::function<void()> body) {
  const MutexLock lock(mutex_);
  JoinAll(ended_);
  const auto self = running_.emplace(running_.end());
  try {
    *self =
        std::thread([this, self, body = std::move(body)] { Run(self, body); });
  } catch (const std::system_error& error) {
    running_.erase(self);
    return absl::ResourceExhaustedError(
        absl::StrCat("the system starts no further thread: ", error.what()));
  }
  return absl::OkStatus();
}

void ThreadGroup::Run(Threads::iterator self,
                      const std::function<void()>& body) {
  body();
  const MutexLock lock(mutex_);
  JoinAll(ended_);
  ended_.splice(ended_.end(), running_, self);
  if (running_.empty()) all_ended_.NotifyAll();
}

void ThreadGroup::Join() {
  const MutexLock lock(mutex_);
  while (!running_.empty()) all_ended_.Wait(mutex_);
  JoinAll(ended_);
}

}  // namespace verbena::base
