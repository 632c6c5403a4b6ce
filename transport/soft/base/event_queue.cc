#include "transport/soft/base/event_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "transport/base/check.h"

namespace verbena::soft {

std::unique_ptr<EventQueue> EventQueue::Create() {
  const int fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  if (fd < 0) return nullptr;
  return std::unique_ptr<EventQueue>(new EventQueue(fd));
}

EventQueue::~EventQueue() { close(fd_); }

void EventQueue::Raise(const Event& event) {
  {
    const base::MutexLock lock(mutex_);
    events_.push_back(event);
  }
  const uint64_t one = 1;
  CHECK_EQ(write(fd_, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
}

bool EventQueue::Get(Event& event) {
  for (;;) {
    uint64_t count;
    const ssize_t got = read(fd_, &count, sizeof(count));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    const base::MutexLock lock(mutex_);
    // The event may have been forgotten since it was counted.
    if (events_.empty()) continue;
    event = events_.front();
    events_.pop_front();
    ++event.source->handed_out_;
    return true;
  }
}

void EventQueue::Acknowledge(Source& source, uint64_t count) {
  const base::MutexLock lock(mutex_);
  source.acknowledged_ += count;
  acknowledged_.NotifyAll();
}

void EventQueue::Forget(Source& source) {
  const base::MutexLock lock(mutex_);
  std::erase_if(events_,
                [&](const Event& event) { return event.source == &source; });
  while (source.acknowledged_ < source.handed_out_) acknowledged_.Wait(mutex_);
}

}  // namespace verbena::soft
