// Drives connections: polls their completion queues, runs what other threads
// post, watches the connection manager, keeps time, and sleeps when told to.

#ifndef VERBENA_TRANSPORT_CONNECTION_POLLER_H_
#define VERBENA_TRANSPORT_CONNECTION_POLLER_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "transport/base/mpsc_queue.h"
#include "transport/connection/poller_task.h"

namespace verbena::transport {

// Something that a poller drives: the connections of one device, or the events
// of one connection manager. All methods are called with the role held.
class Pollable {
 public:
  virtual ~Pollable() = default;

  // Handles what is there without blocking or entering the kernel; returns how
  // many things it handled.
  virtual int Poll() = 0;

  // Whether Poll() ever finds anything. Nobody is asked in vain on every round.
  virtual bool polls() const { return true; }

  // Called about once a millisecond while the poller runs, and before and after
  // a sleep: deadlines, keepalive. Does not enter the kernel.
  virtual void Tick(absl::Time now) = 0;

  // The descriptor is readable, or was: handles what it announces, without
  // blocking. It is looked at once a millisecond while the poller runs, and
  // wakes it from sleep.
  virtual void OnReadable() {}

  // Arms what wakes the poller from sleep. The poller calls Poll() once more
  // after this, so that nothing that came in between is lost.
  virtual absl::Status Arm() = 0;

  // Becomes readable when an armed thing happened; -1 when there is none.
  virtual int fd() const = 0;

  // The latest time at which Tick() must run although nothing happens.
  virtual absl::Time NextTick() const = 0;
};

// Something that is to be done at the end of a round of polling, once, however
// much of the round asks for it: what a connection has to send then goes out
// with one doorbell.
class RoundTask {
 public:
  virtual void OnRoundEnd() = 0;

 protected:
  ~RoundTask() = default;

 private:
  friend class Poller;
  bool at_round_end_ = false;  // It stands in the poller's list.
};

// The thread that uses a Poller is the one that holds its *role*: one at a
// time. Post(), Wake(), TryAcquireRole() and has_role_holder() may be called
// from any thread, everything else only with the role held. Everything that
// belongs to a poller (connections, calls) is confined to the holder of its
// role.
class Poller {
 public:
  static absl::StatusOr<std::unique_ptr<Poller>> Create();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;
  // REQUIRES: nobody holds the role, nothing is posted, no Pollable is left.
  ~Poller();

  // Takes the role if it is free. Never blocks. What the previous holder did
  // happens before what this one does.
  bool TryAcquireRole() {
    return !held_.load(std::memory_order_relaxed) &&
           !held_.exchange(true, std::memory_order_acquire);
  }
  // A holder that leaves calls open must see to it that somebody polls.
  void ReleaseRole() { held_.store(false, std::memory_order_release); }
  bool has_role_holder() const { return held_.load(std::memory_order_relaxed); }

  // Runs `task` on the holder of the role, soon, in the order posted. Wakes the
  // holder if it sleeps. If nobody holds the role, the task waits for the next
  // PollOnce().
  void Post(PollerTask* task);

  // Ends the current or the next Sleep() early.
  void Wake();

  void Add(Pollable* pollable);
  void Remove(Pollable* pollable);  // Not from inside a Pollable's own methods.

  // Polls everything once, runs posted tasks, and ticks when it is time.
  // Returns how many things it handled.
  int PollOnce();

  // Arms everything, polls once more, and if there was nothing blocks until
  // something happens, Wake(), the next tick, or `until`. Not for who waits for
  // one thing: that may happen in here, before it blocks. See PollUntil().
  void Sleep(absl::Time until);

  // Polls, and sleeps when there is nothing to do, until `done()` or
  // `deadline`.
  template <typename Done>
  void PollUntil(Done done, absl::Time deadline) {
    while (!done() && absl::Now() < deadline) {
      // A tick before the sleep may have been all that was missing.
      if (PollOnce() == 0 && PrepareSleep()) {
        WaitForEvent(done() ? absl::InfinitePast() : deadline);
      }
    }
  }

  // The two halves of Sleep(), for a thread that gives the role up while it
  // waits, so that others can poll. PrepareSleep() needs the role; it returns
  // false if there was something to do instead. WaitForEvent() does not need
  // the role; it may wake for nothing. One thread at a time sleeps: two would
  // take each other's wake-ups.
  bool PrepareSleep();
  void WaitForEvent(absl::Time until);

  // Whether completions or posted tasks are being handled, so that
  // AtRoundEnd() is soon. Outside of a round nothing may wait for the next one.
  bool in_round() const { return in_round_; }

  // Runs `task` before this round ends. REQUIRES: in_round(), or a descriptor
  // is being handled; then a tick comes before the next round, and must not
  // destroy the task.
  void AtRoundEnd(RoundTask* task) {
    if (task->at_round_end_) return;
    task->at_round_end_ = true;
    round_tasks_.push_back(task);
  }

  // Notes that so many more bytes (fewer, if negative) may be read or written
  // by a device while nothing completes.
  void NoteTransfer(int64_t bytes) { transfer_bytes_ += bytes; }
  // How long they may take: a thread that sees nothing happen should wait that
  // much longer before it sleeps. A software device moves them inside Poll().
  absl::Duration TransferTime() const {
    return std::min(absl::Nanoseconds(transfer_bytes_ * kNanosecondsPerByte),
                    kTransferTimeMax);
  }

  // A clock that costs nothing: at most tens of microseconds old while somebody
  // polls, else as of the last RefreshNow().
  absl::Time now() const { return now_; }
  // How old now() is at most after RefreshNow().
  static constexpr absl::Duration kNowAgeMax = absl::Microseconds(40);
  // For who has just taken the role and has not polled yet. The clock costs
  // more than a small call can spare, the processor's counter a third of that:
  // what was read a moment ago is left as it is.
  void RefreshNow() {
    const uint64_t cycles = __builtin_ia32_rdtsc();
    if (cycles - read_at_ > kFreshCycles) ReadClock(cycles);
  }

 private:
  // A GB/s: less than a software device moves on a busy machine.
  static constexpr int64_t kNanosecondsPerByte = 1;
  // What idling may cost at most because a peer is silent.
  static constexpr absl::Duration kTransferTimeMax = absl::Milliseconds(5);

  // Some ten microseconds; less than kNowAgeMax on a processor of 1 GHz.
  static constexpr uint64_t kFreshCycles = 1 << 15;

  Poller(int epoll_fd, int wake_fd);
  void ReadClock(uint64_t cycles) {
    now_ = absl::Now();
    read_at_ = cycles;
  }
  int PollAll();
  void TickAll();
  // Notes which descriptors are readable, after at most `wait_ms`. Returns
  // whether Wake() was called and nobody has taken that since.
  bool WaitForDescriptors(int wait_ms);
  void HandleReadable();

  const int epoll_fd_;  // Holds wake_fd_ and every Pollable's descriptor.
  const int wake_fd_;   // An eventfd.

  std::atomic<bool> held_{false};
  base::MpscQueue<PollerTask> posted_;
  // Whether Post() and Wake() must write to wake_fd_. Set before the last poll
  // that precedes a sleep, so a task is either seen by that poll or wakes.
  std::atomic<bool> sleeping_{false};
  std::atomic<bool> tick_due_{true};  // Set after a sleep.
  // By Entry::bit: whose descriptors were readable. Noted without the role,
  // handled with it.
  std::atomic<uint64_t> readable_{0};
  std::atomic<int64_t> sleep_until_ns_{0};  // From PrepareSleep().

  // Only the holder of the role touches what follows.
  struct Entry {
    Pollable* pollable;
    // That of its descriptor in readable_. Two may share one: then both look.
    uint64_t bit;
  };
  std::vector<Entry> pollables_;
  std::vector<Pollable*> polled_;  // Those of them that have polls().
  uint32_t bits_used_ = 0;
  bool in_round_ = false;
  std::vector<RoundTask*> round_tasks_;
  absl::Time now_;
  uint64_t read_at_ = 0;  // The processor's counter when now_ was read.
  absl::Time next_tick_ = absl::InfinitePast();
  int64_t transfer_bytes_ = 0;
  int polls_until_clock_ = 0;  // The clock is read once in so many polls.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CONNECTION_POLLER_H_
