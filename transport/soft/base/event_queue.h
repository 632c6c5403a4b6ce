// Events that a user reads from a file descriptor: completion channels and the
// asynchronous events of a context are both made of these.

#ifndef VERBENA_TRANSPORT_SOFT_BASE_EVENT_QUEUE_H_
#define VERBENA_TRANSPORT_SOFT_BASE_EVENT_QUEUE_H_

#include <cstdint>
#include <list>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"

namespace verbena::soft {

// A first-in first-out queue of events with a descriptor that is readable while
// it holds one.
//
// Each event has a source, the verbs object that it is about. Get() hands an
// event out, the user acknowledges it, and Forget() waits for the
// acknowledgements, so that no source dies while an event about it is in a
// user's hands.
//
// Thread-safe. Sources must call Forget() before they die.
class EventQueue {
 public:
  // The part of an object that raises events by which they are counted.
  class Source {
    friend class EventQueue;
    uint64_t handed_out_ ABSL_GUARDED_BY(&EventQueue::mutex_) = 0;
    uint64_t acknowledged_ ABSL_GUARDED_BY(&EventQueue::mutex_) = 0;
  };

  struct Event {
    Source* source = nullptr;
    void* object = nullptr;  // The CQ, QP or SRQ.
    int type = 0;            // ibv_event_type; unused by completion channels.
  };

  // Null, with errno, when the process is out of descriptors.
  static std::unique_ptr<EventQueue> Create();

  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;
  virtual ~EventQueue() = default;

  // Belongs to the queue, and is readable while it holds an event. The user may
  // set O_NONBLOCK on it and poll it.
  int fd() const { return fd_; }

  void Raise(const Event& event);

  // Takes the oldest event. Without one it waits, or, when fd() is
  // non-blocking, returns false with errno EAGAIN. A signal ends the wait, with
  // EINTR, if it would end a read(2): programs rely on that.
  bool Get(Event& event);

  void Acknowledge(Source& source, uint64_t count);

  // Drops the events of `source` that nobody has taken, and waits until those
  // that were taken are acknowledged.
  void Forget(Source& source);

 protected:
  explicit EventQueue(int fd) : fd_(fd) {}

  // Makes fd() readable for one more event.
  virtual void Signal() = 0;
  // Waits until fd() is readable and takes one signal back, for which there may
  // be no event any more. False, with errno, if there is none and fd() is
  // non-blocking, or if a signal came.
  virtual bool TakeSignal() = 0;

 private:
  const int fd_;

  base::Mutex mutex_;
  base::CondVar acknowledged_;
  std::list<Event> events_ ABSL_GUARDED_BY(mutex_);
  // Nodes for the next events, used again and again: a program that sleeps for
  // each call allocates nothing for that.
  std::list<Event> spare_ ABSL_GUARDED_BY(mutex_) = std::list<Event>(4);
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_BASE_EVENT_QUEUE_H_
