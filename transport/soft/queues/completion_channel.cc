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

void CompletionChannel::Events::Signal() {
  if (answering_.load(std::memory_order_relaxed) ==
      std::this_thread::get_id()) {
    ++raised_;
  } else {
    Ring(1);
  }
}

// What the bell has no room for is owed from before the second attempt on. Does
// that fail too, there was a datagram in the bell, and whoever takes it sees
// the debt; does it not, there is a ring too many, which does no harm.
void CompletionChannel::Events::Ring(int count) {
  while (count > 0 && bell_->RingOwn()) --count;
  if (count == 0) return;
  owed_.fetch_add(count, std::memory_order_seq_cst);
  bell_->RingOwn();
}

bool CompletionChannel::Events::TakeSignal() {
  WaiterBell::Ring ring;
  while (bell_->Take(ring)) {
    // Whatever it was that was taken, there is room now.
    Ring(owed_.exchange(0, std::memory_order_seq_cst));
    if (ring.number == 0 || Answer(ring)) return true;
  }
  return false;
}

// Runs the queue pair that was rung for. Whether that raised an event.
bool CompletionChannel::Events::Answer(const WaiterBell::Ring& ring) {
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
