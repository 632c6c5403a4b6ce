// Drives connections: polls their completion queues, runs what other threads
// post, watches the connection manager, keeps time, and sleeps when told to.

#ifndef VERBENA_TRANSPORT_POLLING_POLLER_H_
#define VERBENA_TRANSPORT_POLLING_POLLER_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"
#include "transport/base/cycle_counter.h"
#include "transport/base/mpsc_queue.h"
#include "transport/base/rare_warning.h"
#include "transport/polling/ownership.h"
#include "transport/polling/poller_counters.h"
#include "transport/polling/task.h"

namespace verbena::transport {

// Something that a poller drives: the connections of one device, or the events
// of one connection manager. All methods are called on the poller's thread.
class Pollable {
 public:
  virtual ~Pollable() = default;

  // Handles what is there without blocking or entering the kernel, and finishes
  // its round; returns how many things it handled.
  virtual int Poll() = 0;

  // Sends what was asked for since its last round ended; returns whether there
  // was anything. Called when others were polled after it, which may have
  // given it something to send.
  virtual bool FinishRound() { return false; }

  // Whether Poll() ever finds anything. Nobody is asked in vain on every round.
  virtual bool polls() const { return true; }

  // Called about once a millisecond while the poller runs, and before and after
  // a sleep: deadlines, keepalive. Does not enter the kernel.
  virtual void Tick(absl::Time now) = 0;

  // The descriptor is readable, or was: handles what it announces, without
  // blocking. It wakes the poller from sleep. While the poller runs the
  // descriptor is looked at once a millisecond, or, after a while in which none
  // was readable, once in kSeldomLook: see Poller::LookOften().
  virtual void OnReadable() {}

  // Arms what wakes the poller from sleep. The poller calls Poll() once more
  // after this, so that nothing that came in between is lost.
  virtual absl::Status Arm() = 0;

  // Becomes readable when an armed thing happened; -1 when there is none.
  virtual int fd() const = 0;

  // The latest time at which Tick() must run although nothing happens.
  virtual absl::Time NextTick() const = 0;
};

// Confined to one thread at a time, the owner, together with everything that
// belongs to it (connections, calls): only Post(), Wake() and any_posted() may
// be called from any thread.
class Poller {
 public:
  static absl::StatusOr<std::unique_ptr<Poller>> Create();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;
  // REQUIRES: there is no owner, nothing is posted, no Pollable is left.
  ~Poller();

  // Says which thread uses the poller. If the owner leaves calls open when it
  // releases the ownership, it must see to it that somebody polls.
  Ownership& ownership() { return ownership_; }
  // Takes the ownership until Leave(), and asserts that nobody else has it. A
  // thread that is the only one to use the poller needs no more.
  void Enter() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    CHECK(ownership_.TryAcquire()) << "two use a poller at the same time";
  }
  void Leave() ABSL_NO_THREAD_SAFETY_ANALYSIS { ownership_.Release(); }

  // Runs `task` on the poller's thread, soon, in the order posted. Wakes the
  // thread if it sleeps. If nobody polls, the task waits for the next
  // PollOnce().
  void Post(Task* task);

  // Ends the current or the next Sleep() early.
  void Wake();

  // Whether posted tasks wait. Any thread. Sequentially consistent, like
  // Post(): of a thread that leaves and looks here, and one that posts and then
  // looks whether it has left, one sees the other.
  bool any_posted() const { return !posted_.empty(); }

  // Runs what is posted, outside of a round. PollOnce() does, too. Returns how
  // many tasks there were.
  ABSL_ATTRIBUTE_NOINLINE int RunPosted();

  // If the kernel does not watch its descriptor (ENOSPC, beyond
  // fs.epoll.max_user_watches), the poller looks at it at every tick instead,
  // and ticks often, until the kernel does.
  void Add(Pollable* pollable);
  void Remove(Pollable* pollable);  // Not from inside a Pollable's own methods.

  // A descriptor is expected to become readable soon: looks at all of them once
  // a millisecond for a tenth of a second. A look is a system call.
  void LookOften() {
    looks_in_vain_ = 0;
    next_look_ = absl::InfinitePast();
  }

  // Polls everything once, runs posted tasks, and ticks when it is time.
  // Returns how many things it handled.
  int PollOnce();

  // Arms everything and polls once more. If there was nothing, blocks until
  // something happens, Wake(), the next tick, or `until`. A caller that waits
  // for one thing uses PollUntil(): that thing may happen in here, before
  // this blocks.
  void Sleep(absl::Time until);

  // Polls, and sleeps when there is nothing to do, until `done()` or
  // `deadline`.
  template <typename Done>
  void PollUntil(Done done, absl::Time deadline) {
    while (!done() && base::Now() < deadline) {
      // A tick before the sleep may have been all that was missing.
      if (PollOnce() == 0 && PrepareSleep()) {
        WaitForEvent(done() ? absl::InfinitePast() : deadline);
      }
    }
  }

  // The two halves of Sleep(), for a thread that lets others poll while it
  // waits. PrepareSleep() returns false if there was something to do instead.
  // WaitForEvent() may be called beside the thread that polls; it may wake for
  // nothing. One thread at a time sleeps: two would take each other's wake-ups.
  bool PrepareSleep();
  void WaitForEvent(absl::Time until);

  // For a caller that never blocks, such as a simulation. Polls; if nothing was
  // found, does what comes before and after a sleep, without sleeping. Returns
  // whether there was something to do. If not, there will be nothing before
  // next_wake() unless a descriptor becomes readable, which the next Step()
  // finds out.
  bool Step();
  absl::Time next_wake() const {
    return absl::FromUnixNanos(sleep_until_ns_.load(std::memory_order_relaxed));
  }

  // Any thread may read the counters.
  PollerCounters& counters() { return counters_; }

  // Whether completions or posted tasks are being handled, so that every
  // Pollable finishes its round soon. Outside of a round nothing may wait for
  // the next one.
  bool in_round() const { return in_round_; }

  // Notes that so many more bytes (fewer, if negative) may be read or written
  // by a device while nothing completes.
  void NoteTransfer(int64_t bytes) { transfer_bytes_ += bytes; }
  // Returns how long these bytes may take. A thread that sees nothing happen
  // should wait that much longer before it sleeps. A software device moves them
  // inside Poll().
  absl::Duration TransferTime() const {
    return std::min(absl::Nanoseconds(transfer_bytes_ * kNanosecondsPerByte),
                    kTransferTimeMax);
  }

  // A clock that costs nothing: at most tens of microseconds old while somebody
  // polls without a break, else as of the last RefreshNow(). It stands while
  // the thread runs a task of PollerThreads, at a server, for up to two
  // milliseconds. The
  // second is the same in nanoseconds, in which a small call reckons.
  absl::Time now() const { return now_; }
  int64_t now_ns() const { return now_ns_; }
  // The time between two looks at the descriptors, at the most.
  static constexpr absl::Duration kSeldomLook = absl::Milliseconds(20);
  // How old now() is at most after RefreshNow().
  static constexpr absl::Duration kNowAgeMax = absl::Microseconds(40);
  // For a thread that begins to use the poller and has not polled yet. The
  // clock costs more than a small call can spare, the processor's counter a
  // third of that: what was read a moment ago is left as it is.
  void RefreshNow() {
    const uint64_t cycles = base::CycleNow();
    if (cycles - read_at_ > kFreshCycles) ReadClock(cycles);
  }

 private:
  // A GB/s: less than a software device moves on a busy machine.
  static constexpr int64_t kNanosecondsPerByte = 1;
  // The longest TransferTime(): a silent peer makes nobody spin for longer.
  static constexpr absl::Duration kTransferTimeMax = absl::Milliseconds(5);

  // Polls between two looks at the clock. What is handled may take much longer
  // than a poll that finds nothing, and counts as so many of them.
  static constexpr int kPollsPerClock = 64;
  static constexpr int kPollsPerHandled = 16;

  // Some ten microseconds; less than kNowAgeMax on a processor of 1 GHz.
  static constexpr uint64_t kFreshCycles = 1 << 15;

  Poller(int epoll_fd, int wake_fd);
  void ReadClock(uint64_t cycles) {
    now_ns_ = base::NowNanos();
    now_ = absl::FromUnixNanos(now_ns_);
    read_at_ = cycles;
  }
  int PollAll();
  // Has all Pollables finish their rounds until none has anything left.
  // FinishRounds() and RunPosted() are not part of PollAll(), because the
  // registers that they need would make every idle poll dearer.
  ABSL_ATTRIBUTE_NOINLINE void FinishRounds();
  // Reads the clock, and ticks if a tick is due.
  void TickIfDue();
  void TickAll();
  void LookAtDescriptors();
  // Notes which descriptors are readable, after at most `wait_ms`. Returns
  // whether Wake() was called and nobody has taken that since.
  bool WaitForDescriptors(int wait_ms);
  void HandleReadable();

  const int epoll_fd_;  // Holds wake_fd_ and every Pollable's descriptor.
  const int wake_fd_;   // An eventfd.

  Ownership ownership_;
  base::MpscQueue<Task> posted_;
  // Whether Post() and Wake() must write to wake_fd_. Set before the last poll
  // that precedes a sleep, so a task is either seen by that poll or wakes.
  std::atomic<bool> sleeping_{false};
  std::atomic<bool> tick_due_{true};  // Set after a sleep.
  // By Entry::bit: whose descriptors were readable. Noted by a thread that
  // sleeps, handled by the one that polls.
  std::atomic<uint64_t> readable_{0};
  std::atomic<int64_t> sleep_until_ns_{0};  // From PrepareSleep().

  // Only the thread that polls touches what follows.
  struct Entry {
    Pollable* pollable;
    // The descriptor's bit in readable_. Two Pollables that share it both look.
    uint64_t bit;
    bool unwatched = false;  // The kernel has refused its descriptor so far.
  };
  // Looks at those whose descriptors nobody watches.
  void LookAtUnwatched();
  std::vector<Entry> pollables_;
  std::vector<Pollable*> polled_;  // Those of them that have polls().
  uint32_t bits_used_ = 0;
  uint64_t polled_bits_ = 0;  // Those that were ever given to one with polls().
  uint32_t unwatched_ = 0;    // How many are.
  base::RareWarning warning_;
  bool in_round_ = false;
  PollerCounters counters_;
  absl::Time now_;
  int64_t now_ns_ = 0;
  uint64_t read_at_ = 0;  // The processor's counter when now_ was read.
  absl::Time next_tick_ = absl::InfinitePast();
  absl::Time next_look_ = absl::InfinitePast();  // At the descriptors.
  int looks_in_vain_ = 0;  // In a row, up to kLooksInVain.
  int64_t transfer_bytes_ = 0;
  int polls_until_clock_ = 0;  // The clock is read once in so many polls.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_POLLING_POLLER_H_
