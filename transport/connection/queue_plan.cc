#include "transport/connection/queue_plan.h"

#include <algorithm>

#include "transport/base/limits.h"
#include "transport/connection/receive_buffers.h"

namespace verbena::transport {
namespace {

// What one connection can use at most of what is shared.
constexpr uint32_t kMostGrown = kCredits - kIdleCredits;
constexpr uint32_t kMostShared = kSendQueueDepth - 1 - kOwnSends;

// What is shared shrinks to this, but not further: less would make every
// connection slow rather than some wait.
constexpr uint32_t kLeastGrown = kMostGrown;
constexpr uint32_t kLeastShared = kMostShared;

}  // namespace

uint32_t QueuePlan::Receives() const {
  return receive_queues == ReceiveQueues::kOneEach
             ? kIdleReceives + kMostGrown
             : connections * kIdleReceives + grown_receives;
}

uint32_t QueuePlan::ReceiveDepth() const {
  return ReceiveBuffers::QueueDepth(Receives());
}

uint32_t QueuePlan::CompletionDepth() const {
  constexpr uint32_t kMarkers = 1;  // Of each queue pair, when it ends.
  const bool each = receive_queues == ReceiveQueues::kOneEach;
  return (each ? connections : 1) * ReceiveDepth() +
         connections * (kOwnSends + kMarkers) + shared_sends;
}

QueuePlan PlanQueues(uint32_t connections, uint32_t max_receives,
                     uint32_t max_completions, ReceiveQueues receive_queues) {
  QueuePlan plan;
  plan.receive_queues = receive_queues;
  plan.connections = connections;
  plan.grown_receives = std::min(connections * kMostGrown, kMaxGrownReceives);
  // What is posted into a queue of its own stays there when a window shrinks:
  // each counts as full, and is.
  const bool each = receive_queues == ReceiveQueues::kOneEach;
  if (each) plan.grown_receives = connections * kMostGrown;
  plan.shared_sends = std::min(connections * kMostShared, kMaxSharedSends);
  const auto fits = [&] {
    return plan.ReceiveDepth() <= max_receives &&
           plan.CompletionDepth() <= max_completions;
  };
  while (plan.connections > 0 && !fits()) {
    const bool grown = !each && plan.grown_receives > kLeastGrown;
    if (grown || plan.shared_sends > kLeastShared) {
      if (grown) {
        plan.grown_receives = std::max(plan.grown_receives / 2, kLeastGrown);
      }
      plan.shared_sends = std::max(plan.shared_sends / 2, kLeastShared);
    } else {
      --plan.connections;
    }
  }
  return plan;
}

}  // namespace verbena::transport
