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
  } else if (!bell_->RingOwn()) {
    owed_.fetch_add(1, std::memory_order_relaxed);
  }
}

bool CompletionChannel::Events::TakeSignal() {
  WaiterBell::Ring ring;
  while (bell_->Take(ring)) {
    // There is room for one now, unless somebody was quicker: then whoever
    // takes that gives the signal.
    if (owed_.load(std::memory_order_relaxed) > 0 && bell_->RingOwn()) {
      owed_.fetch_sub(1, std::memory_order_relaxed);
    }
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
