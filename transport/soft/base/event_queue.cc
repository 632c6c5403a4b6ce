#include "transport/soft/base/event_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "transport/base/check.h"

namespace verbena::soft {

namespace {

// The usual queue of events, whose descriptor is a counting eventfd.
class CountedEvents final : public EventQueue {
 public:
  explicit CountedEvents(int fd) : EventQueue(fd) {}
  ~CountedEvents() override { close(fd()); }

 private:
  void Signal() override {
    const uint64_t one = 1;
    CHECK_EQ(write(fd(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  }

  bool TakeSignal() override {
    uint64_t count;
    return read(fd(), &count, sizeof(count)) == sizeof(count);
  }
};

}  // namespace

std::unique_ptr<EventQueue> EventQueue::Create() {
  // Each read takes one signal, and so one event, however many have come.
  const int fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  if (fd < 0) return nullptr;
  return std::make_unique<CountedEvents>(fd);
}

// The event goes before its signal, so that the thread that takes the signal
// finds the event.
void EventQueue::Raise(const Event& event) {
  {
    const base::MutexLock lock(mutex_);
    if (spare_.empty()) spare_.emplace_back();
    events_.splice(events_.end(), spare_, spare_.begin());
    events_.back() = event;
  }
  Signal();
}

bool EventQueue::Get(Event& event) {
  while (TakeSignal()) {
    const base::MutexLock lock(mutex_);
    // The event may have been forgotten since its signal was given.
    if (events_.empty()) continue;
    event = events_.front();
    spare_.splice(spare_.begin(), events_, events_.begin());
    ++event.source->handed_out_;
    return true;
  }
  return false;
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
