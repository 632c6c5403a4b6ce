#include "transport/connection/poller.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/memory/memory.h"
#include "transport/base/check.h"
#include "transport/verbs/error.h"

namespace verbena::transport {
namespace {

// Polls between two looks at the clock, and the time between two ticks. A tick
// enters the kernel for every event channel, so it must stay rare. What is
// handled may take much longer than a poll that finds nothing, and counts as so
// many of them.
constexpr int kPollsPerClock = 64;
constexpr int kPollsPerHandled = 16;
constexpr absl::Duration kTickInterval = absl::Milliseconds(1);

// epoll_wait() counts in milliseconds, and an int of them; longer sleeps are
// cut.
constexpr absl::Duration kLongestSleep = absl::Minutes(10);

absl::Status AddToEpoll(int epoll_fd, int fd) {
  epoll_event event = {};
  event.events = EPOLLIN;
  if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
    return ErrnoStatus("epoll_ctl", "", errno);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Poller>> Poller::Create() {
  const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd < 0) return ErrnoStatus("epoll_create1", "", errno);
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) {
    const int error = errno;
    close(epoll_fd);
    return ErrnoStatus("eventfd", "", error);
  }
  std::unique_ptr<Poller> poller =
      absl::WrapUnique(new Poller(epoll_fd, wake_fd));
  if (absl::Status status = AddToEpoll(epoll_fd, wake_fd); !status.ok()) {
    return status;
  }
  return poller;
}

Poller::Poller(int epoll_fd, int wake_fd)
    : epoll_fd_(epoll_fd), wake_fd_(wake_fd), now_(absl::Now()) {}

Poller::~Poller() {
  CHECK(pollables_.empty());
  CHECK(posted_.empty());
  CHECK(!has_role_holder());
  close(wake_fd_);
  close(epoll_fd_);
}

void Poller::Post(PollerTask* task) {
  const bool was_empty = posted_.Push(task);
  if (was_empty && sleeping_.load(std::memory_order_seq_cst)) Wake();
}

void Poller::Wake() {
  const uint64_t one = 1;
  // Fails only when the counter is full, and then it is readable anyway.
  (void)!write(wake_fd_, &one, sizeof(one));
}

void Poller::Add(Pollable* pollable) {
  pollables_.push_back(pollable);
  if (pollable->fd() >= 0) {
    CHECK(AddToEpoll(epoll_fd_, pollable->fd()).ok());
  }
}

void Poller::Remove(Pollable* pollable) {
  const auto found = std::find(pollables_.begin(), pollables_.end(), pollable);
  CHECK(found != pollables_.end());
  pollables_.erase(found);
  if (pollable->fd() >= 0) {
    epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, pollable->fd(), nullptr);
  }
}

int Poller::PollOnce() {
  if (--polls_until_clock_ <= 0 || tick_due_.load(std::memory_order_relaxed)) {
    polls_until_clock_ = kPollsPerClock;
    now_ = absl::Now();
    if (now_ >= next_tick_ || tick_due_.load(std::memory_order_relaxed)) {
      TickAll();
    }
  }
  const int handled = PollAll();
  polls_until_clock_ -= std::min(handled, kPollsPerClock) * kPollsPerHandled;
  return handled;
}

int Poller::PollAll() {
  int handled = 0;
  in_round_ = true;
  if (!posted_.empty()) {
    posted_.TakeAll([&handled](PollerTask* task) {
      ++handled;
      task->Run();
    });
  }
  // By index: handling something may add a Pollable.
  for (size_t i = 0; i < pollables_.size(); ++i) {
    handled += pollables_[i]->Poll();
  }
  // By index, too: the end of one may give another something to do. A task
  // stays in the list until it has run, so it is never there twice.
  for (size_t i = 0; i < round_tasks_.size(); ++i) {
    RoundTask* const task = round_tasks_[i];
    task->OnRoundEnd();
    task->at_round_end_ = false;
  }
  round_tasks_.clear();
  in_round_ = false;
  return handled;
}

void Poller::TickAll() {
  tick_due_.store(false, std::memory_order_relaxed);
  next_tick_ = now_ + kTickInterval;
  for (size_t i = 0; i < pollables_.size(); ++i) pollables_[i]->Tick(now_);
}

bool Poller::PrepareSleep() {
  sleeping_.store(true, std::memory_order_seq_cst);
  now_ = absl::Now();
  TickAll();
  absl::Time until = absl::InfiniteFuture();
  bool armed = true;
  for (Pollable* pollable : pollables_) {
    armed = pollable->Arm().ok() && armed;
    until = std::min(until, pollable->NextTick());
  }
  // What came before a queue was armed raises no event: look once more.
  if (PollAll() > 0 || !armed) {
    sleeping_.store(false, std::memory_order_relaxed);
    return false;
  }
  sleep_until_ns_.store(absl::ToUnixNanos(until), std::memory_order_relaxed);
  return true;
}

void Poller::WaitForEvent(absl::Time until) {
  const int64_t next_tick_ns = sleep_until_ns_.load(std::memory_order_relaxed);
  until = std::min(until, absl::FromUnixNanos(next_tick_ns));
  const absl::Duration wait =
      std::clamp(until - absl::Now(), absl::ZeroDuration(), kLongestSleep);
  // Rounded up, so that what is due then is due on waking.
  const int wait_ms = static_cast<int>(
      absl::ToInt64Milliseconds(wait + absl::Microseconds(999)));
  epoll_event event = {};
  epoll_wait(epoll_fd_, &event, 1, wait_ms);
  sleeping_.store(false, std::memory_order_seq_cst);
  uint64_t wakes = 0;
  (void)!read(wake_fd_, &wakes, sizeof(wakes));
  tick_due_.store(true, std::memory_order_relaxed);
}

void Poller::Sleep(absl::Time until) {
  if (PrepareSleep()) WaitForEvent(until);
}

}  // namespace verbena::transport
