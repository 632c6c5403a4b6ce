#include "transport/soft/queues/stream_watch.h"

#include <sys/epoll.h>

#include <cerrno>

namespace verbena::soft {
namespace {

epoll_event Event(QueuePair* qp, bool input, bool output) {
  epoll_event event = {};
  event.events = (input ? EPOLLIN | EPOLLRDHUP : 0u) | (output ? EPOLLOUT : 0u);
  event.data.ptr = qp;
  return event;
}

}  // namespace

int StreamWatch::Open() {
  const base::MutexLock lock(mutex_);
  if (owned_.valid()) return 0;
  owned_ = base::UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!owned_.valid()) return errno;
  epoll_fd_.store(owned_.get(), std::memory_order_release);
  return 0;
}

int StreamWatch::Add(QueuePair* qp, int socket) {
  if (const int error = Open(); error != 0) return error;
  epoll_event event = Event(qp, true, false);
  if (::epoll_ctl(fd(), EPOLL_CTL_ADD, socket, &event) != 0) return errno;
  count_.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

void StreamWatch::Remove(int socket) {
  // Fails if nothing is wanted of the socket: then epoll does not have it.
  ::epoll_ctl(fd(), EPOLL_CTL_DEL, socket, nullptr);
  count_.fetch_sub(1, std::memory_order_relaxed);
}

// A socket of which nothing is wanted is taken from epoll: one whose connection
// has ended would be ready whatever it is watched for, and a thread that waits
// would look at it again and again.
void StreamWatch::SetInterest(QueuePair* qp, int socket, bool input,
                              bool output) {
  if (!input && !output) {
    ::epoll_ctl(fd(), EPOLL_CTL_DEL, socket, nullptr);
    return;
  }
  epoll_event event = Event(qp, input, output);
  if (::epoll_ctl(fd(), EPOLL_CTL_MOD, socket, &event) != 0) {
    ::epoll_ctl(fd(), EPOLL_CTL_ADD, socket, &event);
  }
}

absl::Span<QueuePair*> StreamWatch::Look(Ready& ready) const {
  std::array<epoll_event, kReadyMax> events;
  const int count = fd() < 0 ? 0
                             : ::epoll_wait(fd(), events.data(),
                                            static_cast<int>(events.size()), 0);
  size_t found = 0;
  for (int i = 0; i < count; ++i) {
    ready[found++] = static_cast<QueuePair*>(events[i].data.ptr);
  }
  return absl::MakeSpan(ready.data(), found);
}

}  // namespace verbena::soft
