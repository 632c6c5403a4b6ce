#include "rpc/internal/client/background_thread.h"

#include <algorithm>
#include <utility>

#include "rpc/internal/client/shared_poller.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"

namespace verbena::internal {
namespace {

// After how much time without blocking calls the thread begins to watch. While
// it watches, every reply raises an event for it, so it must not watch what
// others poll.
constexpr absl::Duration kDoze = absl::Milliseconds(50);

constexpr uint32_t kPollsPerClock = 64;

// Errands run, at most, between two rounds of polling: the calls that callbacks
// make go out while others are still to be called.
constexpr int kErrandsATurn = 8;

// Whose errand this thread runs.
thread_local const BackgroundThread* runs_errand_of = nullptr;

}  // namespace

BackgroundThread::BackgroundThread(SharedPoller* poller,
                                   transport::SpinPolicy* spin)
    : poller_(poller), wait_(spin), stand_ins_([this] {
        return threads_.Start([this] {
          bool asleep;
          if (!stand_ins_.Await(&asleep)) return;
          Drive();
          StandIn();
        });
      }) {}

absl::Status BackgroundThread::Start() {
  return threads_.Start([this] {
    stand_ins_.NoteDriver();
    Drive();
    StandIn();
  });
}

void BackgroundThread::StandIn() {
  bool asleep;
  while (stand_ins_.BecomeStandIn() && stand_ins_.Await(&asleep)) Drive();
}

bool BackgroundThread::RunsErrand() const { return runs_errand_of == this; }

bool BackgroundThread::RunsAnyErrand() { return runs_errand_of != nullptr; }

// The thread may be in an errand of another SharedPoller, in which it waits for
// a call.
BackgroundThread::CallbackScope::CallbackScope(const BackgroundThread* thread)
    : outer_(std::exchange(runs_errand_of, thread)) {}

BackgroundThread::CallbackScope::~CallbackScope() { runs_errand_of = outer_; }

void BackgroundThread::Notify() {
  if (notified_.load(std::memory_order_seq_cst)) return;  // Not yet cleared.
  if (notified_.exchange(true, std::memory_order_seq_cst)) return;
  // As it mostly is where callbacks make the next calls.
  if (!may_sleep_.load(std::memory_order_seq_cst)) return;
  const base::MutexLock lock(mutex_);
  if (watches_) {
    poller_->transport().Wake();
  } else {
    wake_.NotifyOne();
  }
}

void BackgroundThread::Stop() {
  stop_.store(true, std::memory_order_seq_cst);
  Notify();
  threads_.Join();
}

void BackgroundThread::Drive() {
  while (true) {
    // Before the look at what there is to do, and at stop_: who sets that
    // notifies afterwards.
    notified_.exchange(false, std::memory_order_seq_cst);
    if (stop_.load(std::memory_order_seq_cst)) break;
    if (!RunErrands()) return;
    const absl::Time until = Serve();
    if (first_ != nullptr || notified_.load(std::memory_order_relaxed) ||
        until < base::Now()) {
      continue;
    }
    stand_ins_.NoteSleep();
    may_sleep_.store(true, std::memory_order_seq_cst);
    {
      const base::MutexLock lock(mutex_);
      while (!notified_.load(std::memory_order_seq_cst) &&
             base::Now() < until) {
        wake_.WaitUntil(mutex_, until);
      }
    }
    may_sleep_.store(false, std::memory_order_relaxed);
  }
  stand_ins_.End();
}

void BackgroundThread::TakeErrands() {
  errands_.TakeAll([this](Errand* errand) {
    errand->mpsc_next = nullptr;
    if (first_ == nullptr) {
      first_ = errand;
    } else {
      last_->mpsc_next = errand;
    }
    last_ = errand;
  });
}

Errand* BackgroundThread::TakeFirst() {
  return std::exchange(first_, static_cast<Errand*>(first_->mpsc_next));
}

void BackgroundThread::Run(Errand* errand) {
  runs_errand_of = this;
  errand->RunErrand();
  runs_errand_of = nullptr;
}

bool BackgroundThread::RunErrands() {
  TakeErrands();
  for (int i = 0; i < kErrandsATurn && first_ != nullptr; ++i) {
    // If nobody can stand in, what waits behind an errand that blocks waits as
    // long; threads in blocking calls poll all the same.
    stand_ins_.HasOne();
    Errand* const errand = TakeFirst();
    const transport::DriverSeat::Moment away = stand_ins_.GetUp();
    Run(errand);
    if (!stand_ins_.SitDown(away)) return false;
  }
  return true;
}

bool BackgroundThread::Step() {
  notified_.store(false, std::memory_order_relaxed);
  TakeErrands();
  const bool errands = first_ != nullptr;
  for (int i = 0; i < kErrandsATurn && first_ != nullptr; ++i) {
    Run(TakeFirst());
  }
  SharedPoller& poller = *poller_;
  if (!poller.role_.TryAcquire()) {
    CHECK(false) << "a simulation has one thread";
    return false;
  }
  poller.RunTimers(base::Now());
  const bool polled = poller.transport().Step();
  poller.Release();
  return errands || polled || AnyErrands();
}

absl::Time BackgroundThread::Serve() {
  SharedPoller& poller = *poller_;
  if (!poller.role_.TryAcquire()) {
    // Who holds it serves all calls, and notifies us if there is something left
    // to do for us afterwards.
    return base::Now() + kDoze;
  }
  poller.transport().PollOnce();
  poller.RunTimers(base::Now());
  PollForPending();
  const bool others_called = poller.started_calls_ != seen_calls_;
  seen_calls_ = poller.started_calls_;
  if (AnyErrands()) {
    poller.Release();
    return absl::InfinitePast();
  }
  if (others_called && poller.pending_ == 0) {
    const absl::Time timer = poller.NextTimer();
    poller.Release();
    return std::min(timer, base::Now() + kDoze);
  }
  stand_ins_.NoteSleep();
  // First whether there is nothing to do, which takes no lock: on a machine
  // where it does not pay to spin, there often is something after all.
  const bool prepared = poller.transport().PrepareSleep();
  const bool sleeps = prepared && BeginWatch();
  const absl::Time until = sleeps ? poller.NextTimer() : absl::InfinitePast();
  poller.ReleaseUnless(/*watched=*/sleeps);
  if (prepared) {
    poller.transport().WaitForEvent(until);
    LeaveWatch();
  }
  wait_.Woke(base::Now());
  return absl::InfinitePast();
}

void BackgroundThread::PollForPending() {
  SharedPoller& poller = *poller_;
  poller.role_.AssertHeld();
  uint32_t idle_polls = 0;
  while (poller.pending_ > 0 && !AnyErrands() &&
         !stop_.load(std::memory_order_relaxed)) {
    if (poller.transport().PollOnce() > 0) {
      wait_.Found();
      idle_polls = 0;
    } else if (++idle_polls % kPollsPerClock == 0 &&
               !poller.KeepPolling(&wait_)) {
      return;
    }
  }
}

bool BackgroundThread::BeginWatch() {
  {
    const base::MutexLock lock(mutex_);
    watches_ = true;
  }
  may_sleep_.store(true, std::memory_order_seq_cst);
  // Who notifies after this look wakes the watcher.
  return !notified_.load(std::memory_order_seq_cst);
}

void BackgroundThread::LeaveWatch() {
  may_sleep_.store(false, std::memory_order_relaxed);
  const base::MutexLock lock(mutex_);
  watches_ = false;
  watched_.NotifyAll();
}

void BackgroundThread::EndWatch() {
  const base::MutexLock lock(mutex_);
  while (watches_) {
    poller_->transport().Wake();
    watched_.Wait(mutex_);
  }
}

}  // namespace verbena::internal
