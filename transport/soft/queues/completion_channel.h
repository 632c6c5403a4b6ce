// Completion channels.

#ifndef VERBENA_TRANSPORT_SOFT_QUEUES_COMPLETION_CHANNEL_H_
#define VERBENA_TRANSPORT_SOFT_QUEUES_COMPLETION_CHANNEL_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/base/event_queue.h"
#include "transport/soft/base/live_handles.h"
#include "transport/soft/base/waiter_bell.h"
#include "transport/soft/device/context.h"

namespace verbena::soft {

class CompletionQueue;

// Where completion queues that were armed raise their events.
//
// Its descriptor is an epoll instance with a bell (waiter_bell.h), which peers
// of this host ring as well, and with the sockets that lead to peers of other
// hosts. So the thread that waits for an event is woken by the peer itself, and
// looks for the completion itself: get_cq_event runs the queue pairs that a
// peer rang for, or whose sockets are ready. If no completion comes of that,
// there is no event, although the descriptor was readable.
//
// The context outlives it, and it outlives its completion queues. Thread-safe.
class CompletionChannel final : public ibv_comp_channel {
 public:
  // Null, with errno, when the process is out of descriptors.
  static std::unique_ptr<CompletionChannel> Create(Context& context);

  static CompletionChannel* From(ibv_comp_channel* channel) {
    return static_cast<CompletionChannel*>(channel);
  }

  EventQueue& events() { return events_; }
  std::atomic<int>& children() { return children_; }  // Completion queues.

  // The name of the bell that the peers of queue pairs are to ring.
  const WaiterBell::Name& bell() const { return events_.bell(); }
  int bell_fd_for_testing() const { return events_.bell_fd(); }

  // For completion queues, in their constructor and destructor. After Remove()
  // rings do not reach `queue` any more.
  void Add(CompletionQueue* queue) { events_.Add(queue); }
  void Remove(CompletionQueue* queue) { events_.Remove(queue); }
  // From now on a thread that waits is also woken by `streams`, the descriptor
  // of the StreamWatch of a completion queue. Returns 0 or an errno.
  int WatchStreams(int streams) { return events_.WatchStreams(streams); }

 private:
  // The events of the channel, with a bell for a descriptor.
  class Events final : public EventQueue {
   public:
    Events(base::UniqueFd epoll_fd, std::unique_ptr<WaiterBell> bell)
        : EventQueue(epoll_fd.get()),
          epoll_fd_(std::move(epoll_fd)),
          bell_(std::move(bell)) {}

    const WaiterBell::Name& bell() const { return bell_->name(); }
    int bell_fd() const { return bell_->fd(); }
    void Add(CompletionQueue* queue) ABSL_LOCKS_EXCLUDED(mutex_);
    void Remove(CompletionQueue* queue) ABSL_LOCKS_EXCLUDED(mutex_);
    int WatchStreams(int streams);

   private:
    void Signal() override;
    void Ring(int count);
    bool TakeSignal() override;
    bool TakeRing(const WaiterBell::Ring& ring);
    bool Answer(const WaiterBell::Ring& ring) ABSL_LOCKS_EXCLUDED(mutex_);
    // Whether a socket was ready, and whether that has raised an event.
    enum class Answered { kNothing, kNoEvent, kEvent };
    Answered AnswerStreams() ABSL_LOCKS_EXCLUDED(mutex_);
    bool EndAnswer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

    const base::UniqueFd epoll_fd_;
    // Whether a completion queue has, or had, peers on other hosts.
    std::atomic<bool> has_streams_{false};
    const std::unique_ptr<WaiterBell> bell_;
    // Signals that the bell had no room for. The thread that makes room gives
    // them.
    std::atomic<int> owed_{0};
    // The thread that answers a ring. The events that it raises meanwhile are
    // counted in raised_. The first of them needs no signal, because that
    // thread is about to take it.
    std::atomic<std::thread::id> answering_{};

    // Held while a ring is answered; taken before any lock of a completion
    // queue or a queue pair.
    base::Mutex mutex_;
    std::vector<CompletionQueue*> queues_ ABSL_GUARDED_BY(mutex_);
    int raised_ = 0;  // Used by the thread that answers alone.
  };

  CompletionChannel(Context& context, base::UniqueFd epoll_fd,
                    std::unique_ptr<WaiterBell> bell);

  Events events_;
  std::atomic<int> children_{0};
  const LiveHandle<ibv_comp_channel> live_{this};
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_QUEUES_COMPLETION_CHANNEL_H_
