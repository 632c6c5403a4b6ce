#include "transport/polling/poller.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"
#include "transport/base/cycle_counter.h"
#include "transport/verbs/error.h"

namespace verbena::transport {
namespace {

// The time between two ticks.
constexpr absl::Duration kTickInterval = absl::Milliseconds(1);

// Looks at the descriptors, one a tick, that find none readable before they
// become rare: a look enters the kernel.
constexpr int kLooksInVain = 100;

// The time between two ticks, at the most, while a descriptor is not watched.
constexpr absl::Duration kUnwatchedTick = absl::Milliseconds(10);

// epoll_wait() counts in milliseconds, and an int of them; longer sleeps are
// cut.
constexpr absl::Duration kLongestSleep = absl::Minutes(10);

// Events taken from epoll at once. Others that there are come with the next
// look.
constexpr int kEvents = 8;

// Bit of the descriptor that Wake() writes to; the others are Pollables'.
constexpr uint64_t kWakeBit = 1;
constexpr uint32_t kPollableBits = 63;

absl::Status AddToEpoll(int epoll_fd, int fd, uint64_t bit) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = bit;
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
  if (absl::Status status = AddToEpoll(epoll_fd, wake_fd, kWakeBit);
      !status.ok()) {
    return status;
  }
  return poller;
}

Poller::Poller(int epoll_fd, int wake_fd)
    : epoll_fd_(epoll_fd), wake_fd_(wake_fd) {
  ReadClock(base::CycleNow());
}

Poller::~Poller() {
  CHECK(pollables_.empty());
  CHECK(posted_.empty());
  CHECK(!ownership_.Held());
  close(wake_fd_);
  close(epoll_fd_);
}

void Poller::Post(Task* task) {
  const bool was_empty = posted_.Push(task);
  // Push, then look; PrepareSleep() stores, then polls. In one total order at
  // least one of the two sees the other, so no task is slept through.
  if (was_empty && sleeping_.load(std::memory_order_seq_cst)) Wake();
}

void Poller::Wake() {
  const uint64_t one = 1;
  // Fails only when the counter is full, and then it is readable anyway.
  (void)!write(wake_fd_, &one, sizeof(one));
}

void Poller::Add(Pollable* pollable) {
  Entry entry = {pollable, 0};
  if (pollable->fd() >= 0) {
    entry.bit = kWakeBit << (1 + bits_used_++ % kPollableBits);
    const absl::Status status =
        AddToEpoll(epoll_fd_, pollable->fd(), entry.bit);
    if (!status.ok()) {
      entry.unwatched = true;
      ++unwatched_;
      warning_.Say(absl::StrCat(
          "the poller cannot watch a descriptor, so it notices messages late: ",
          status.ToString()));
    }
  }
  pollables_.push_back(entry);
  LookOften();
  if (pollable->polls()) {
    polled_.push_back(pollable);
    polled_bits_ |= entry.bit;
  }
}

void Poller::Remove(Pollable* pollable) {
  const auto found = std::find_if(
      pollables_.begin(), pollables_.end(),
      [pollable](const Entry& entry) { return entry.pollable == pollable; });
  CHECK(found != pollables_.end());
  if (found->unwatched) --unwatched_;
  pollables_.erase(found);
  std::erase(polled_, pollable);
  if (pollable->fd() >= 0) {
    epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, pollable->fd(), nullptr);
  }
}

void Poller::TickIfDue() {
  polls_until_clock_ = kPollsPerClock;
  RefreshNow();
  // Relaxed: what the sleeper found is in readable_, which has its own order.
  if (tick_due_.load(std::memory_order_relaxed)) {
    tick_due_.store(false, std::memory_order_relaxed);
  } else if (now_ >= next_tick_) {
    if (now_ >= next_look_) LookAtDescriptors();
  } else {
    return;
  }
  HandleReadable();
  TickAll();
}

void Poller::LookAtDescriptors() {
  // A wake-up is for a sleep: it stays there.
  WaitForDescriptors(/*wait_ms=*/0);
  // A Pollable that polls finds its completions without a look.
  if ((readable_.load(std::memory_order_relaxed) & ~polled_bits_) != 0) {
    looks_in_vain_ = 0;
  } else if (looks_in_vain_ < kLooksInVain) {
    ++looks_in_vain_;
  }
  next_look_ =
      now_ + (looks_in_vain_ < kLooksInVain ? kTickInterval : kSeldomLook);
}

// By index: looking may add a Pollable.
void Poller::LookAtUnwatched() {
  for (size_t i = 0; i < pollables_.size(); ++i) {
    if (!pollables_[i].unwatched) continue;
    Pollable* const pollable = pollables_[i].pollable;
    if (AddToEpoll(epoll_fd_, pollable->fd(), pollables_[i].bit).ok()) {
      pollables_[i].unwatched = false;
      --unwatched_;
    }
    pollable->OnReadable();
  }
}

void Poller::TickAll() {
  if (unwatched_ > 0) LookAtUnwatched();
  next_tick_ = now_ + kTickInterval;
  for (size_t i = 0; i < pollables_.size(); ++i) {
    pollables_[i].pollable->Tick(now_);
  }
}

void Poller::HandleReadable() {
  if (readable_.load(std::memory_order_relaxed) == 0) return;
  // Acquire, beside the release in WaitForDescriptors(): another thread may
  // have slept and found these.
  const uint64_t readable = readable_.exchange(0, std::memory_order_acquire);
  for (size_t i = 0; i < pollables_.size(); ++i) {
    if ((pollables_[i].bit & readable) != 0) {
      pollables_[i].pollable->OnReadable();
    }
  }
}

// Says that it sleeps, then ticks, arms, and polls once more. So what comes
// meanwhile is found by that poll, or ends the sleep.
bool Poller::PrepareSleep() {
  counters_.arms.Add();
  sleeping_.store(true, std::memory_order_seq_cst);
  ReadClock(base::CycleNow());
  HandleReadable();
  TickAll();
  absl::Time until =
      unwatched_ > 0 ? now_ + kUnwatchedTick : absl::InfiniteFuture();
  bool armed = true;
  for (const Entry& entry : pollables_) {
    armed = entry.pollable->Arm().ok() && armed;
    until = std::min(until, entry.pollable->NextTick());
  }
  // Completions from before a queue was armed raise no event: look once more.
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
      std::clamp(until - base::Now(), absl::ZeroDuration(), kLongestSleep);
  // Rounded up, so that what is due then is due on waking.
  const int wait_ms = static_cast<int>(
      absl::ToInt64Milliseconds(wait + absl::Microseconds(999)));
  counters_.sleeps.Add();
  if (WaitForDescriptors(wait_ms)) {
    uint64_t wakes = 0;
    (void)!read(wake_fd_, &wakes, sizeof(wakes));
  }
  // From here on Post() need not write to wake_fd_.
  sleeping_.store(false, std::memory_order_seq_cst);
  tick_due_.store(true, std::memory_order_relaxed);
}

bool Poller::WaitForDescriptors(int wait_ms) {
  epoll_event events[kEvents];
  const int count = epoll_wait(epoll_fd_, events, kEvents, wait_ms);
  uint64_t readable = 0;
  for (int i = 0; i < count; ++i) readable |= events[i].data.u64;
  const uint64_t noted = readable & ~kWakeBit;
  if (noted != 0) readable_.fetch_or(noted, std::memory_order_release);
  return (readable & kWakeBit) != 0;
}

void Poller::Sleep(absl::Time until) {
  if (PrepareSleep()) WaitForEvent(until);
}

bool Poller::Step() {
  bool busy = PollOnce() > 0 || !PrepareSleep();
  if (!busy) {
    WaitForEvent(absl::InfinitePast());
    busy = readable_.load(std::memory_order_relaxed) != 0;
  }
  // A manual clock is moved between two steps, in next to no time: what
  // RefreshNow() finds must not depend on how long that took.
  read_at_ = 0;
  return busy;
}

}  // namespace verbena::transport
