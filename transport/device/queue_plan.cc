#include "transport/device/queue_plan.h"

#include <algorithm>

#include "transport/base/limits.h"
#include "transport/device/receive_buffers.h"

namespace verbena::transport {
namespace {

// The most shared receives and work requests that one connection can use.
constexpr uint32_t kMostGrown = kCredits - kIdleCredits;
constexpr uint32_t kMostShared = kSendQueueDepth - 1 - kOwnSends;

// Receives that an idle connection has in a queue of its own.
constexpr uint32_t kIdleDepth = ReceiveBuffers::QueueDepth(kIdleReceives);

// The shared numbers shrink to these and no further: less would make every
// connection slow, rather than make some wait.
constexpr uint32_t kLeastGrown = kMostGrown;
constexpr uint32_t kLeastShared = kMostShared;

uint32_t MostGrown(const QueuePlan& plan) {
  switch (plan.receive_queues) {
    case ReceiveQueues::kOneForAll:
      return std::min(plan.connections * kMostGrown, kMaxGrownReceives);
    case ReceiveQueues::kOneEach:
      return plan.connections * kMostGrown;
    case ReceiveQueues::kOneEachOfSharedMemory:
      return std::min(plan.connections * (plan.ReceiveDepth() - kIdleDepth),
                      kMaxGrownReceives);
  }
  return 0;
}

// Receives that can be posted at once.
uint32_t MostPosted(const QueuePlan& plan) {
  switch (plan.receive_queues) {
    case ReceiveQueues::kOneForAll:
      return plan.ReceiveDepth();
    case ReceiveQueues::kOneEach:
      // Receives stay posted when a window shrinks, so each queue counts as
      // full.
      return plan.connections * plan.ReceiveDepth();
    case ReceiveQueues::kOneEachOfSharedMemory:
      return plan.connections * kIdleDepth + plan.grown_receives;
  }
  return 0;
}

}  // namespace

uint32_t QueuePlan::Receives() const {
  return receive_queues == ReceiveQueues::kOneForAll
             ? connections * kIdleReceives + grown_receives
             : kIdleReceives + kMostGrown;
}

uint32_t QueuePlan::ReceiveDepth() const {
  return ReceiveBuffers::QueueDepth(Receives());
}

uint32_t QueuePlan::CompletionDepth() const {
  constexpr uint32_t kMarkers = 1;  // Per queue pair, at its end.
  return MostPosted(*this) + connections * (kOwnSends + kMarkers) +
         shared_sends;
}

// Begins with the most that the connections may use, and halves what they share
// until it fits. Only when that would make each connection slow, there are
// fewer connections.
QueuePlan PlanQueues(uint32_t connections, uint32_t max_receives,
                     uint32_t max_completions, ReceiveQueues receive_queues) {
  QueuePlan plan;
  plan.receive_queues = receive_queues;
  plan.connections = connections;
  plan.grown_receives = MostGrown(plan);
  plan.shared_sends = std::min(connections * kMostShared, kMaxSharedSends);
  const auto fits = [&] {
    return plan.ReceiveDepth() <= max_receives &&
           plan.CompletionDepth() <= max_completions;
  };
  while (plan.connections > 0 && !fits()) {
    // With kOneEach each queue counts as full, so fewer receives would save
    // nothing.
    const bool grown = receive_queues != ReceiveQueues::kOneEach &&
                       plan.grown_receives > kLeastGrown;
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
