#include "transport/soft/queues/completion_channel.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "transport/soft/queues/completion_queue.h"

namespace verbena::soft {
namespace {

// Returns 0 or an errno.
int AddToEpoll(int epoll_fd, int fd) {
  epoll_event event = {};
  event.events = EPOLLIN;
  return ::epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
}

}  // namespace

CompletionChannel::CompletionChannel(Context& owner, base::UniqueFd epoll_fd,
                                     std::unique_ptr<WaiterBell> bell)
    : ibv_comp_channel(), events_(std::move(epoll_fd), std::move(bell)) {
  context = owner.handle();
  fd = events_.fd();
}

std::unique_ptr<CompletionChannel> CompletionChannel::Create(Context& context) {
  std::unique_ptr<WaiterBell> bell = WaiterBell::Create();
  if (bell == nullptr) return nullptr;
  base::UniqueFd epoll_fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_fd.valid() || AddToEpoll(epoll_fd.get(), bell->fd()) != 0) {
    return nullptr;
  }
  return std::unique_ptr<CompletionChannel>(
      new CompletionChannel(context, std::move(epoll_fd), std::move(bell)));
}

void CompletionChannel::Events::Add(CompletionQueue* queue) {
  const base::MutexLock lock(mutex_);
  queues_.push_back(queue);
}

void CompletionChannel::Events::Remove(CompletionQueue* queue) {
  const base::MutexLock lock(mutex_);
  std::erase(queues_, queue);
}

// A thread finds in answering_ its own id if it has put it there itself, and
// never otherwise: that needs no ordering.
void CompletionChannel::Events::Signal() {
  if (answering_.load(std::memory_order_relaxed) ==
      std::this_thread::get_id()) {
    ++raised_;
  } else {
    Ring(1);
  }
}

// Signals that the bell has no room for are owed, which is noted before the
// second attempt. If that fails too, the bell was full after the note, and
// whoever takes a ring from it sees the note. If it succeeds, there is one ring
// too many, which does no harm.
void CompletionChannel::Events::Ring(int count) {
  while (count > 0 && bell_->RingOwn()) --count;
  if (count == 0) return;
  owed_.fetch_add(count, std::memory_order_seq_cst);
  bell_->RingOwn();
}

// A thread that waits at the bell alone is rung, so that it waits for both.
int CompletionChannel::Events::WatchStreams(int streams) {
  if (const int error = AddToEpoll(epoll_fd_.get(), streams); error != 0) {
    return error == EEXIST ? 0 : error;
  }
  has_streams_.store(true, std::memory_order_seq_cst);
  bell_->RingOwn();
  return 0;
}

// Takes rings and looks at sockets until one tells of an event.
bool CompletionChannel::Events::TakeSignal() {
  for (;;) {
    WaiterBell::Ring ring;
    while (bell_->TryTake(ring)) {
      if (TakeRing(ring)) return true;
    }
    if (errno != EAGAIN) return false;
    if (has_streams_.load(std::memory_order_seq_cst)) {
      const Answered answered = AnswerStreams();
      if (answered == Answered::kEvent) return true;
      if (answered == Answered::kNoEvent) continue;
    }
    if ((::fcntl(epoll_fd_.get(), F_GETFL) & O_NONBLOCK) != 0) {
      errno = EAGAIN;
      return false;
    }
    if (has_streams_.load(std::memory_order_seq_cst)) {
      epoll_event event;
      if (::epoll_wait(epoll_fd_.get(), &event, 1, -1) < 0) return false;
    } else {
      // A read is what a signal ends only if its handler asks for that.
      if (!bell_->Take(ring)) return false;
      if (TakeRing(ring)) return true;
    }
  }
}

// Returns whether `ring` tells of an event. The number 0 is that of the
// channel's own rings; any other number is that of the queue pair that a peer
// rang for.
bool CompletionChannel::Events::TakeRing(const WaiterBell::Ring& ring) {
  // Whatever ring was taken, there is room now for what is owed.
  Ring(owed_.exchange(0, std::memory_order_seq_cst));
  return ring.number == 0 || Answer(ring);
}

// Runs the queue pair that was rung for. Returns whether that has raised an
// event, which the caller takes; the others have signals of their own.
bool CompletionChannel::Events::Answer(const WaiterBell::Ring& ring) {
  // Held while the queue pair runs, so that its completion queue is not
  // destroyed meanwhile.
  const base::MutexLock lock(mutex_);
  answering_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  for (CompletionQueue* queue : queues_) {
    if (queue->queue_pairs().AnswerBell(ring)) break;
  }
  return EndAnswer();
}

// As Answer(), for the queue pairs whose sockets are ready.
CompletionChannel::Events::Answered CompletionChannel::Events::AnswerStreams() {
  const base::MutexLock lock(mutex_);
  answering_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  bool ready = false;
  for (CompletionQueue* queue : queues_) {
    ready |= queue->queue_pairs().AnswerStreams();
  }
  if (EndAnswer()) return Answered::kEvent;
  return ready ? Answered::kNoEvent : Answered::kNothing;
}

// Returns whether the calling thread has raised an event meanwhile.
bool CompletionChannel::Events::EndAnswer() {
  answering_.store(std::thread::id(), std::memory_order_relaxed);
  const int raised = std::exchange(raised_, 0);
  for (int i = 1; i < raised; ++i) Signal();
  return raised > 0;
}

}  // namespace verbena::soft
