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
  return connections * kIdleReceives + grown_receives;
}

uint32_t QueuePlan::SharedReceiveDepth() const {
  return ReceiveBuffers::QueueDepth(Receives());
}

uint32_t QueuePlan::CompletionDepth() const {
  constexpr uint32_t kMarkers = 1;  // Of each queue pair, when it ends.
  return SharedReceiveDepth() + connections * (kOwnSends + kMarkers) +
         shared_sends;
}

QueuePlan PlanQueues(uint32_t connections, uint32_t max_shared_receives,
                     uint32_t max_completions) {
  QueuePlan plan;
  plan.connections = connections;
  plan.grown_receives = std::min(connections * kMostGrown, kMaxGrownReceives);
  plan.shared_sends = std::min(connections * kMostShared, kMaxSharedSends);
  const auto fits = [&] {
    return plan.SharedReceiveDepth() <= max_shared_receives &&
           plan.CompletionDepth() <= max_completions;
  };
  while (plan.connections > 0 && !fits()) {
    if (plan.grown_receives > kLeastGrown || plan.shared_sends > kLeastShared) {
      plan.grown_receives = std::max(plan.grown_receives / 2, kLeastGrown);
      plan.shared_sends = std::max(plan.shared_sends / 2, kLeastShared);
    } else {
      --plan.connections;
    }
  }
  return plan;
}

}  // namespace verbena::transport
