#include "transport/soft/queues/completion_channel.h"

#include <algorithm>
#include <utility>

#include "transport/soft/queues/completion_queue.h"

namespace verbena::soft {

CompletionChannel::CompletionChannel(Context& owner,
                                     std::unique_ptr<WaiterBell> bell)
    : ibv_comp_channel(), events_(std::move(bell)) {
  context = owner.handle();
  fd = events_.fd();
}

std::unique_ptr<CompletionChannel> CompletionChannel::Create(Context& context) {
  std::unique_ptr<WaiterBell> bell = WaiterBell::Create();
  if (bell == nullptr) return nullptr;
  return std::unique_ptr<CompletionChannel>(
      new CompletionChannel(context, std::move(bell)));
}

void CompletionChannel::Events::Add(CompletionQueue* queue) {
  const base::MutexLock lock(mutex_);
  queues_.push_back(queue);
}

void CompletionChannel::Events::Remove(CompletionQueue* queue) {
  const base::MutexLock lock(mutex_);
  std::erase(queues_, queue);
}

// A thread finds in answering_ its own id if it has put it there itself, and
// never otherwise: that needs no ordering.
void CompletionChannel::Events::Signal() {
  if (answering_.load(std::memory_order_relaxed) ==
      std::this_thread::get_id()) {
    ++raised_;
  } else {
    Ring(1);
  }
}

// Signals that the bell has no room for are owed, which is noted before the
// second attempt. If that fails too, the bell was full after the note, and
// whoever takes a ring from it sees the note. If it succeeds, there is one ring
// too many, which does no harm.
void CompletionChannel::Events::Ring(int count) {
  while (count > 0 && bell_->RingOwn()) --count;
  if (count == 0) return;
  owed_.fetch_add(count, std::memory_order_seq_cst);
  bell_->RingOwn();
}

// Takes rings until one tells of an event. The number 0 is that of the
// channel's own rings; any other number is that of the queue pair that a peer
// rang for.
bool CompletionChannel::Events::TakeSignal() {
  WaiterBell::Ring ring;
  while (bell_->Take(ring)) {
    // Whatever ring was taken, there is room now for what is owed.
    Ring(owed_.exchange(0, std::memory_order_seq_cst));
    if (ring.number == 0 || Answer(ring)) return true;
  }
  return false;
}

// Runs the queue pair that was rung for. Returns whether that has raised an
// event, which the caller takes; the others have signals of their own.
bool CompletionChannel::Events::Answer(const WaiterBell::Ring& ring) {
  // Held while the queue pair runs, so that its completion queue is not
  // destroyed meanwhile.
  const base::MutexLock lock(mutex_);
  answering_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  for (CompletionQueue* queue : queues_) {
    if (queue->queue_pairs().AnswerBell(ring)) break;
  }
  answering_.store(std::thread::id(), std::memory_order_relaxed);
  const int raised = std::exchange(raised_, 0);
  for (int i = 1; i < raised; ++i) Signal();
  return raised > 0;
}

}  // namespace verbena::soft
