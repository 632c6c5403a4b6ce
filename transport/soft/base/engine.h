// The background thread of the software device.
//
// The thread does the work that no user thread does. It watches descriptors
// (doorbells, the connection manager's sockets), runs timers, and looks after
// queue pairs that nobody polls. While users poll, the thread only looks in now
// and then. When they do not, it blocks until a peer rings. An idle engine uses
// no CPU time.

#ifndef VERBENA_TRANSPORT_SOFT_BASE_ENGINE_H_
#define VERBENA_TRANSPORT_SOFT_BASE_ENGINE_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/base/rare_warning.h"
#include "transport/base/thread_group.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/base/clock.h"

namespace verbena::soft {

// Something that the engine looks after when nobody polls it: a linked queue
// pair.
class EngineMember {
 public:
  using TimePoint = Clock::TimePoint;

  virtual ~EngineMember() = default;

  // Called on the engine's thread after a kick of the engine and whenever the
  // time that the last call returned has come. Returns when to call again;
  // TimePoint::max() for "only when kicked". Must not block.
  virtual TimePoint OnTick(TimePoint now) = 0;

 private:
  friend class Engine;
  std::atomic<bool> kicked_{false};  // OnTick() is to be called soon.
};

// A thread with an epoll instance. Start() makes both, or else the first call
// that needs them. With a manual clock there is no thread: the work is done in
// RunOnce(), so nothing happens behind the back of a test. Then all calls must
// come from one thread.
//
// Thread-safe. Callbacks run on the engine's thread, one at a time, with no
// lock of the engine held: they may call any method. They must not block. Lives
// as long as the process (see SoftDevice::Get), so that nothing has to outlive
// it.
class Engine {
 public:
  using TimePoint = Clock::TimePoint;
  using TimerId = uint64_t;  // Never zero, never reused.

  explicit Engine(Clock::Kind clock = Clock::Kind::kSteady);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  // Ends the thread. Not from a callback.
  ~Engine();

  Clock& clock() { return clock_; }

  // Starts the thread, if it does not run yet. Returns 0, or the errno with
  // which the kernel refuses descriptors (EMFILE, ENFILE, ENOMEM) or a thread
  // (EUSERS); then it may be called again. EOPNOTSUPP if IsLostByFork(). Call
  // it where such a failure can be told to the user: the methods that need the
  // thread abort if it cannot be started.
  int Start();

  // Ends the thread for good, for a process that is about to end; takes no
  // longer than `longest`. What the methods have it do is not done then. Not
  // from a callback.
  void EndThread(absl::Duration longest);

  // Whether this process is a child of the one that has the thread: fork() does
  // not copy threads, and what this one keeps may be half changed, for good.
  bool IsLostByFork() const;

  // Does what the thread does in one round, but for waiting: calls what is
  // ready now. Returns whether there was something. Not from a callback.
  // REQUIRES: the clock is manual.
  bool RunOnce();
  // The time at which RunOnce() will have something to do if nothing happens
  // before; a time in the past means now, TimePoint::max() never. A member that
  // was removed may make it too early.
  TimePoint NextDue();

  // Calls `on_readable` whenever `fd` is readable, at end of file or in error
  // (level triggered). `fd` is borrowed until Unwatch(fd). Returns 0, or the
  // errno with which the kernel refuses; then `fd` is not watched. ENOSPC: the
  // user watches as many as it may (fs.epoll.max_user_watches).
  // REQUIRES: `fd` is not watched.
  int Watch(int fd, std::function<void()> on_readable);
  // As Watch(), but for callers that could not report an error. If the kernel
  // refuses, the engine asks it again and again. Until the kernel agrees,
  // `on_readable` is not called.
  void WatchWhenPossible(int fd, std::function<void()> on_readable);

  // Sets what the callback of `fd` is called for from now on; Watch() begins
  // with reading alone. It is always called for the end of the file and for
  // errors. REQUIRES: `fd` is watched.
  void SetInterest(int fd, bool readable, bool writable);
  // As SetInterest(), for the end of a stream alone: its callback is called
  // when the peer has closed it.
  void SetInterestInEnd(int fd);

  // After it returns the callback of `fd` is not running and never will again.
  // A callback may unwatch itself and run on to its end; whoever unwatches it
  // then waits for that end. Otherwise does nothing when `fd` is not watched.
  void Unwatch(int fd);

  // Runs `task` once on the engine's thread, soon. Tasks run in order.
  void Post(std::function<void()> task);

  // Runs `task` once on the engine's thread, no sooner than `delay` from now.
  TimerId StartTimer(std::chrono::nanoseconds delay,
                     std::function<void()> task);

  // Like Unwatch(): afterwards the task is not running and never will. Does
  // nothing when it has run already.
  void CancelTimer(TimerId id);

  // `member` is borrowed until RemoveMember(), which waits for a callback as
  // Unwatch() does.
  void AddMember(EngineMember* member);
  void RemoveMember(EngineMember* member);

  // Runs `task` on the engine's thread, and then waits, no longer than
  // `longest`, until what was ready by then has been called too: descriptors,
  // tasks, kicked members. Does nothing when the thread has never been needed.
  // Not from a callback.
  void RunAndCatchUp(std::function<void()> task,
                     std::chrono::nanoseconds longest);

  // Has `member` ticked soon, or every member. May be called with any lock
  // held. It costs a system call, unless the engine has been woken for kicks
  // already.
  void Kick(EngineMember* member);
  void KickAll();

 private:
  struct Timer {
    TimerId id;
    std::function<void()> task;
  };

  bool OnOwnThread() const {
    return std::this_thread::get_id() ==
           thread_id_.load(std::memory_order_relaxed);
  }
  int StartLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int OpenDescriptors() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckStarted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has the kernel watch what was registered by `key`. Returns 0 or an errno.
  int AddToEpoll(uint64_t key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddToEpollSoon(uint64_t key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t Register(int fd, std::function<void()> on_readable)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Unregister(int fd) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ChangeInterest(int fd, uint32_t interest);
  void PostAfterRounds(size_t rounds, std::function<void()> task);
  void Wake();
  void WakeForKick();
  void Run();
  bool RunRound(int timeout_ms);
  void RunDescriptor(uint64_t registration);
  void RunPosted();
  void RunTimers(TimePoint now);
  void RunMembers(TimePoint now);
  // The result of TimeoutMs() when the thread is to end.
  static constexpr int kStopped = -2;
  int TimeoutMs(TimePoint now);
  // Calls `call`, without the mutex, as the one running callback, which `key`
  // names to those who wait for it to end.
  void RunCallback(uint64_t key, const std::function<void()>& call)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WaitUntilNotRunning(uint64_t key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Clock clock_;
  // Made by the first Start(), constant afterwards.
  base::UniqueFd epoll_fd_;
  base::UniqueFd wake_fd_;  // An eventfd: new work, or stop.

  std::atomic<bool> kicked_{false};      // Some member is to be ticked.
  std::atomic<bool> all_kicked_{false};  // All members are.
  // The id of the thread, once it runs. Relaxed, because a thread looks only
  // for its own id, which it has stored itself.
  std::atomic<std::thread::id> thread_id_{};
  // The process that has started the thread; 0 before.
  std::atomic<pid_t> process_{0};

  base::Mutex mutex_;
  base::CondVar callback_done_;
  bool started_ ABSL_GUARDED_BY(mutex_) = false;  // Start() has succeeded.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Names registrations, timers and members.
  uint64_t next_key_ ABSL_GUARDED_BY(mutex_) = 1;
  // The key of the callback that runs now; 0 for none.
  uint64_t running_key_ ABSL_GUARDED_BY(mutex_) = 0;
  // The descriptor whose callback runs now; -1 for none.
  int running_fd_ ABSL_GUARDED_BY(mutex_) = -1;
  struct Descriptor {
    int fd;
    std::shared_ptr<std::function<void()>> on_readable;
    uint32_t interest;      // As epoll has it.
    bool in_epoll = false;  // Else the kernel has refused it so far.
  };
  base::RareWarning warning_ ABSL_GUARDED_BY(mutex_);
  // The watched descriptors, by key.
  std::unordered_map<uint64_t, Descriptor> descriptors_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<int, uint64_t> keys_by_fd_ ABSL_GUARDED_BY(mutex_);
  std::multimap<TimePoint, Timer> timers_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> posted_ ABSL_GUARDED_BY(mutex_);
  struct Member {
    EngineMember* member;
    TimePoint next_tick;
  };
  // The members, by key.
  std::map<uint64_t, Member> members_ ABSL_GUARDED_BY(mutex_);
  // No member has a next_tick before this. So thousands of members that sleep
  // need not be looked at for each doorbell.
  TimePoint earliest_tick_ ABSL_GUARDED_BY(mutex_) = TimePoint::max();

  base::ThreadGroup threads_{"verbena-soft"};  // The one thread.
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_BASE_ENGINE_H_
