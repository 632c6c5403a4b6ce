// What the thread that drives a server's poller does between two rounds.

#ifndef VERBENA_TRANSPORT_CONNECTION_INTERLUDES_H_
#define VERBENA_TRANSPORT_CONNECTION_INTERLUDES_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "transport/connection/stand_ins.h"

namespace verbena::transport {

// Something that should take microseconds, such as a handler of a user's. Owned
// by whoever adds it.
class InterludeTask {
 public:
  // Does it, outside of the poller. It may block: then another thread takes the
  // poller over. Ends with a PollerTask of its own posted to the poller, which
  // may destroy this as soon as somebody polls again. Returns how long it took,
  // as the processor's counter counts.
  virtual uint64_t RunInterlude() = 0;

  // On the poller: RunInterlude() was found asleep when it had taken about a
  // millisecond, and the poller was taken from its thread.
  virtual void OnBlocked() = 0;

  // On the poller, instead of RunInterlude(): what came before this task held
  // the thread up. It is to be done elsewhere.
  virtual void MoveElsewhere() = 0;

 protected:
  ~InterludeTask() = default;

 private:
  friend class Interludes;

  InterludeTask* next_ = nullptr;  // In the list.
};

// A list of tasks that the *driver*, the thread that polls, runs between two
// rounds, one at a time, and out of its seat: see StandIns. No task is taken on
// unless there is a stand-in.
//
// Confined to the poller, but for what the stand-in calls.
class Interludes {
 public:
  // See StandIns.
  explicit Interludes(std::function<absl::Status()> start_stand_in)
      : stand_ins_(std::move(start_stand_in)) {}
  Interludes(const Interludes&) = delete;
  Interludes& operator=(const Interludes&) = delete;
  ~Interludes();

  // Has the task run between this round and the next one, or soon. Returns
  // false, and takes nothing, if that may take long: too much is waiting, or
  // there is no stand-in just now.
  [[nodiscard]] bool Add(InterludeTask* task) {
    if (ABSL_PREDICT_FALSE(listed_ == kMostListed || !stand_ins_.HasOne())) {
      return false;
    }
    task->next_ = nullptr;
    (first_ == nullptr ? first_ : last_->next_) = task;
    last_ = task;
    ++listed_;
    return true;
  }

  bool empty() const { return first_ == nullptr; }

  // Runs what is in the list, or some of it. Returns false if this thread is no
  // longer the driver, and must leave everything of the poller alone.
  // REQUIRES: !empty().
  [[nodiscard]] bool Run();

  // See StandIns.
  void NoteDriver() { stand_ins_.NoteDriver(); }
  void NoteSleep() { stand_ins_.NoteSleep(); }
  void End();

  // --- For threads that are not the driver: see StandIns ---

  [[nodiscard]] bool BecomeStandIn() { return stand_ins_.BecomeStandIn(); }
  [[nodiscard]] bool Await();

 private:
  // Handlers that are so slow that more than this wait are better spread over
  // other threads.
  static constexpr int kMostListed = 32;

  // Takes the first task out of the list.
  InterludeTask* TakeFirst();

  StandIns stand_ins_;

  // The driver's. The list, oldest first; both null when it is empty.
  InterludeTask* first_ = nullptr;
  InterludeTask* last_ = nullptr;
  int listed_ = 0;                    // Tasks in it.
  InterludeTask* running_ = nullptr;  // The last one that was begun.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CONNECTION_INTERLUDES_H_
