#include "transport/soft/base/engine.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"

namespace verbena::soft {
namespace {

constexpr uint64_t kWakeKey = 0;  // Names the eventfd in epoll.
constexpr int kEventsMax = 64;

// The pause before the kernel is asked again to watch a descriptor.
constexpr std::chrono::milliseconds kWatchPause(10);

}  // namespace

Engine::Engine(Clock::Kind clock) : clock_(clock) {}

Engine::~Engine() { EndThread(absl::InfiniteDuration()); }

int Engine::Start() {
  // Another thread of the parent may have held the mutex when it forked.
  if (IsLostByFork()) return EOPNOTSUPP;
  const base::MutexLock lock(mutex_);
  return StartLocked();
}

bool Engine::IsLostByFork() const {
  // Relaxed, because a child has the value in its copy of the memory.
  const pid_t process = process_.load(std::memory_order_relaxed);
  return process != 0 && process != getpid();
}

// The flag is set before the thread is woken, so that it finds the flag.
void Engine::EndThread(absl::Duration longest) {
  {
    const base::MutexLock lock(mutex_);
    stopping_ = true;
  }
  Wake();
  threads_.JoinFor(longest);
}

// If the thread cannot be started, the descriptors stay, and the next call goes
// on from there.
int Engine::StartLocked() {
  if (started_) return 0;
  if (!epoll_fd_.valid()) {
    if (const int error = OpenDescriptors(); error != 0) return error;
  }
  if (!clock_.manual()) {
    const absl::Status status = threads_.Start([this] {
      thread_id_.store(std::this_thread::get_id(), std::memory_order_relaxed);
      Run();
    });
    if (!status.ok()) return EUSERS;
    process_.store(getpid(), std::memory_order_relaxed);
  }
  started_ = true;
  return 0;
}

// Keeps both descriptors or none, because Start() may be called again.
int Engine::OpenDescriptors() {
  base::UniqueFd epoll_fd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_fd.valid()) return errno;
  base::UniqueFd wake_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_fd.valid()) return errno;
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = kWakeKey;
  if (epoll_ctl(epoll_fd.get(), EPOLL_CTL_ADD, wake_fd.get(), &event) != 0) {
    return errno;
  }
  epoll_fd_ = std::move(epoll_fd);
  wake_fd_ = std::move(wake_fd);
  return 0;
}

void Engine::CheckStarted() {
  const int error = StartLocked();
  CHECK_EQ(error, 0) << "nobody called Start() before";
}

void Engine::Wake() {
  const uint64_t one = 1;
  // write() fails only if the counter is full. Then the thread wakes anyway.
  static_cast<void>(!write(wake_fd_.get(), &one, sizeof(one)));
}

// kicked_ releases what is said of the members, and RunMembers() acquires it.
// All of them exchange it, so one kick does not hide what another has said.
void Engine::Kick(EngineMember* member) {
  member->kicked_.store(true, std::memory_order_relaxed);
  WakeForKick();
}

void Engine::KickAll() {
  all_kicked_.store(true, std::memory_order_relaxed);
  WakeForKick();
}

void Engine::WakeForKick() {
  // The engine's own thread looks before it blocks.
  if (!kicked_.exchange(true, std::memory_order_acq_rel) && !OnOwnThread()) {
    Wake();
  }
}

uint64_t Engine::Register(int fd, std::function<void()> on_readable) {
  CheckStarted();
  CHECK(!keys_by_fd_.contains(fd))
      << "descriptor " << fd << " is watched twice";
  const uint64_t key = next_key_++;
  keys_by_fd_[fd] = key;
  descriptors_[key] = Descriptor{
      fd, std::make_shared<std::function<void()>>(std::move(on_readable)),
      EPOLLIN | EPOLLRDHUP};
  return key;
}

void Engine::Unregister(int fd) {
  const auto found = keys_by_fd_.find(fd);
  if (found == keys_by_fd_.end()) return;
  descriptors_.erase(found->second);
  keys_by_fd_.erase(found);
}

int Engine::AddToEpoll(uint64_t key) {
  Descriptor& descriptor = descriptors_.at(key);
  epoll_event event = {};
  event.events = descriptor.interest;
  event.data.u64 = key;
  if (epoll_ctl(epoll_fd_.get(), EPOLL_CTL_ADD, descriptor.fd, &event) != 0) {
    return errno;
  }
  descriptor.in_epoll = true;
  return 0;
}

void Engine::AddToEpollSoon(uint64_t key) {
  timers_.emplace(clock_.Now() + kWatchPause,
                  Timer{next_key_++, [this, key] {
                          const base::MutexLock lock(mutex_);
                          if (!descriptors_.contains(key)) return;
                          if (AddToEpoll(key) != 0) AddToEpollSoon(key);
                        }});
  Wake();
}

int Engine::Watch(int fd, std::function<void()> on_readable) {
  const base::MutexLock lock(mutex_);
  const int error = AddToEpoll(Register(fd, std::move(on_readable)));
  if (error != 0) Unregister(fd);
  return error;
}

void Engine::WatchWhenPossible(int fd, std::function<void()> on_readable) {
  const base::MutexLock lock(mutex_);
  const uint64_t key = Register(fd, std::move(on_readable));
  const int error = AddToEpoll(key);
  if (error == 0) return;
  AddToEpollSoon(key);
  warning_.Say(absl::StrCat(
      "the software device cannot watch a descriptor, errno ", error,
      error == ENOSPC ? " (see fs.epoll.max_user_watches)" : "",
      ": messages on it wait until the device can"));
}

void Engine::SetInterest(int fd, bool readable, bool writable) {
  ChangeInterest(
      fd, (readable ? EPOLLIN | EPOLLRDHUP : 0u) | (writable ? EPOLLOUT : 0u));
}

void Engine::SetInterestInEnd(int fd) { ChangeInterest(fd, EPOLLRDHUP); }

void Engine::ChangeInterest(int fd, uint32_t interest) {
  const base::MutexLock lock(mutex_);
  const auto found = keys_by_fd_.find(fd);
  CHECK(found != keys_by_fd_.end()) << "descriptor " << fd << " is not watched";
  Descriptor& descriptor = descriptors_.at(found->second);
  descriptor.interest = interest;
  // AddToEpoll() uses the interest as soon as the kernel agrees.
  if (!descriptor.in_epoll) return;
  epoll_event event = {};
  event.events = descriptor.interest;
  event.data.u64 = found->second;
  CHECK_EQ(epoll_ctl(epoll_fd_.get(), EPOLL_CTL_MOD, fd, &event), 0)
      << "cannot watch descriptor " << fd << ", errno " << errno;
}

void Engine::Unwatch(int fd) {
  const base::MutexLock lock(mutex_);
  if (keys_by_fd_.contains(fd)) {
    Unregister(fd);
    // Fails if the owner has closed `fd`: then it has left the epoll set.
    epoll_ctl(epoll_fd_.get(), EPOLL_CTL_DEL, fd, nullptr);
  }
  if (OnOwnThread()) return;
  // Waits even if `fd` was not watched any more: its callback may have
  // unwatched itself, and still run.
  while (running_fd_ == fd) callback_done_.Wait(mutex_);
}

void Engine::Post(std::function<void()> task) {
  {
    const base::MutexLock lock(mutex_);
    CheckStarted();
    posted_.push_back(std::move(task));
  }
  Wake();
}

Engine::TimerId Engine::StartTimer(std::chrono::nanoseconds delay,
                                   std::function<void()> task) {
  TimerId id;
  {
    const base::MutexLock lock(mutex_);
    CheckStarted();
    id = next_key_++;
    timers_.emplace(clock_.Now() + delay, Timer{id, std::move(task)});
  }
  Wake();
  return id;
}

void Engine::CancelTimer(TimerId id) {
  const base::MutexLock lock(mutex_);
  std::erase_if(timers_,
                [id](const auto& entry) { return entry.second.id == id; });
  WaitUntilNotRunning(id);
}

void Engine::AddMember(EngineMember* member) {
  {
    const base::MutexLock lock(mutex_);
    CheckStarted();
    // The next round ticks it, and it says then when it wants to be called
    // again.
    members_[next_key_++] = Member{member, TimePoint::min()};
    earliest_tick_ = TimePoint::min();
  }
  Wake();
}

void Engine::RemoveMember(EngineMember* member) {
  const base::MutexLock lock(mutex_);
  for (auto entry = members_.begin(); entry != members_.end(); ++entry) {
    if (entry->second.member != member) continue;
    const uint64_t key = entry->first;
    members_.erase(entry);
    WaitUntilNotRunning(key);
    return;
  }
}

// Behind the task comes another one, which waits for as many rounds as it takes
// to call every descriptor. The promise is shared, because this call may give
// up before it is kept.
void Engine::RunAndCatchUp(std::function<void()> task,
                           std::chrono::nanoseconds longest) {
  size_t rounds;
  {
    const base::MutexLock lock(mutex_);
    if (!started_) return;
    // A round calls the callbacks of at most kEventsMax descriptors, and of
    // those first that have waited longest.
    rounds = descriptors_.size() / kEventsMax + 1;
  }
  Post(std::move(task));
  const auto caught_up = std::make_shared<std::promise<void>>();
  PostAfterRounds(rounds, [caught_up] { caught_up->set_value(); });
  if (clock_.manual()) {
    for (size_t i = 0; i <= rounds + 1; ++i) RunOnce();
  }
  caught_up->get_future().wait_for(longest);
}

void Engine::PostAfterRounds(size_t rounds, std::function<void()> task) {
  Post([this, rounds, task = std::move(task)]() mutable {
    if (rounds == 0) {
      task();
    } else {
      PostAfterRounds(rounds - 1, std::move(task));
    }
  });
}

void Engine::WaitUntilNotRunning(uint64_t key) {
  if (OnOwnThread()) return;  // A callback does not wait for its own end.
  while (running_key_ == key) callback_done_.Wait(mutex_);
}

// The mutex is released for the call, because a callback may call any method.
void Engine::RunCallback(uint64_t key, const std::function<void()>& call) {
  running_key_ = key;
  mutex_.unlock();
  call();
  mutex_.lock();
  running_key_ = 0;
  running_fd_ = -1;
  callback_done_.NotifyAll();
}

void Engine::Run() {
  for (;;) {
    const int timeout_ms = TimeoutMs(clock_.Now());
    if (timeout_ms == kStopped) return;
    RunRound(timeout_ms);
  }
}

bool Engine::RunOnce() {
  CHECK(clock_.manual() && !OnOwnThread());
  {
    const base::MutexLock lock(mutex_);
    CheckStarted();
  }
  thread_id_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  const bool due = NextDue() <= clock_.Now();
  const bool ready = RunRound(0);
  thread_id_.store(std::thread::id(), std::memory_order_relaxed);
  return due || ready;
}

// Whether a descriptor was ready. Waits for descriptors, and then calls all
// that is ready: descriptors, tasks, timers and members.
bool Engine::RunRound(int timeout_ms) {
  epoll_event events[kEventsMax];
  const int count = epoll_wait(epoll_fd_.get(), events, kEventsMax, timeout_ms);
  CHECK(count >= 0 || errno == EINTR) << "epoll_wait failed, errno " << errno;
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u64 != kWakeKey) {
      RunDescriptor(events[i].data.u64);
      continue;
    }
    // Taken before the work is looked at, so that what comes later wakes the
    // next round.
    uint64_t wakes;
    static_cast<void>(!read(wake_fd_.get(), &wakes, sizeof(wakes)));
  }
  RunPosted();
  RunTimers(clock_.Now());
  RunMembers(clock_.Now());
  return count > 0;
}

void Engine::RunDescriptor(uint64_t key) {
  const base::MutexLock lock(mutex_);
  auto found = descriptors_.find(key);
  if (found == descriptors_.end()) return;  // Unwatched since epoll_wait.
  // A callback may unwatch its own descriptor, which drops the entry.
  std::shared_ptr<std::function<void()>> call = found->second.on_readable;
  running_fd_ = found->second.fd;
  RunCallback(key, *call);
}

// A task that is posted meanwhile waits for the next round, by which
// PostAfterRounds() counts.
void Engine::RunPosted() {
  const base::MutexLock lock(mutex_);
  std::vector<std::function<void()>> tasks = std::move(posted_);
  posted_.clear();
  // Nobody waits for the end of a task, so it needs no key of its own.
  for (const std::function<void()>& task : tasks) {
    RunCallback(kWakeKey, task);
  }
}

void Engine::RunTimers(TimePoint now) {
  const base::MutexLock lock(mutex_);
  // Looks at the first one again each time, because a callback may start and
  // cancel timers.
  while (!timers_.empty() && timers_.begin()->first <= now) {
    Timer timer = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    RunCallback(timer.id, timer.task);
  }
}

// Ticks the members that were kicked or whose time has come, and finds the
// earliest time of all. Goes by keys, which stay in order while callbacks add
// and remove members.
void Engine::RunMembers(TimePoint now) {
  const bool some = kicked_.exchange(false, std::memory_order_acq_rel);
  const bool all =
      some && all_kicked_.exchange(false, std::memory_order_relaxed);
  const base::MutexLock lock(mutex_);
  if (!some && now < earliest_tick_) return;
  earliest_tick_ = TimePoint::max();
  for (auto entry = members_.begin(); entry != members_.end();) {
    EngineMember* const member = entry->second.member;
    // Acquired with kicked_ above.
    const bool kicked = some && member->kicked_.load(std::memory_order_relaxed);
    if (!all && !kicked && entry->second.next_tick > now) {
      earliest_tick_ = std::min(earliest_tick_, entry->second.next_tick);
      ++entry;
      continue;
    }
    // Before the call: a kick that comes during it asks for another one.
    member->kicked_.store(false, std::memory_order_relaxed);
    const uint64_t key = entry->first;
    TimePoint next;
    RunCallback(key, [&] { next = member->OnTick(now); });
    // Any member may have been removed while the lock was released.
    entry = members_.lower_bound(key);
    if (entry != members_.end() && entry->first == key) {
      entry->second.next_tick = next;
      earliest_tick_ = std::min(earliest_tick_, next);
      ++entry;
    }
  }
}

Engine::TimePoint Engine::NextDue() {
  const base::MutexLock lock(mutex_);
  if (!posted_.empty() || kicked_.load(std::memory_order_acquire)) {
    return TimePoint::min();
  }
  return timers_.empty() ? earliest_tick_
                         : std::min(earliest_tick_, timers_.begin()->first);
}

// How long epoll_wait may block: -1 for ever.
int Engine::TimeoutMs(TimePoint now) {
  {
    const base::MutexLock lock(mutex_);
    if (stopping_) return kStopped;
  }
  const TimePoint next = NextDue();
  if (next == TimePoint::max()) return -1;
  if (next <= now) return 0;
  constexpr std::chrono::milliseconds kLongest(60 * 1000);
  // Rounded up: to wake too early would be to spin.
  return static_cast<int>(
      std::chrono::ceil<std::chrono::milliseconds>(
          std::min<TimePoint::duration>(next - now, kLongest))
          .count());
}

}  // namespace verbena::soft
