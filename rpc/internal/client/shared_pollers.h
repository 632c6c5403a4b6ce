// The pollers of a process, which its channels share.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_SHARED_POLLERS_H_
#define VERBENA_RPC_INTERNAL_CLIENT_SHARED_POLLERS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rpc/internal/client/backoff.h"
#include "rpc/internal/client/shared_poller.h"
#include "rpc/metrics.h"
#include "transport/base/mutex.h"

namespace verbena::internal {

// The pollers of a process. A channel joins the one that has the fewest
// channels; there are as many as processors, so that calls on a few channels do
// not wait for each other, and thousands of channels need no more threads and
// descriptors than that. Channels of another spin budget have pollers of their
// own. A poller ends when its last channel has left.
//
// Thread-safe.
class SharedPollers {
 public:
  enum class Drive { kByThreads, kByStep };

  // At most `most` pollers for each spin budget, which have threads or are
  // driven by Step().
  SharedPollers(size_t most, Drive drive) : most_(most), drive_(drive) {}
  SharedPollers(const SharedPollers&) = delete;
  SharedPollers& operator=(const SharedPollers&) = delete;

  // The pollers that all channels of the process share.
  static SharedPollers& OfProcess();

  // Makes OfProcess() a single poller without threads, for the life of the
  // process: see SharedPoller::CreateStepped(). Later calls return the same
  // object. Aborts if the process had a channel before the first call.
  static SharedPollers& Simulate();
  // Step() and NextStep() of SharedPoller, for all pollers there are. REQUIRES:
  // they have no threads.
  bool Step();
  absl::Time NextStep();
  // `seed` determines all random values from now on: see
  // SharedPoller::NewSeed().
  void Seed(uint64_t seed);

  // Returns the poller for one more channel, which has it until Leave(). For
  // errors see SharedPoller::Create().
  absl::StatusOr<SharedPoller*> Join(absl::Duration spin_budget);

  // A channel has left `poller`. Ends the pollers that have no channel any
  // more, and waits for that; but none from inside a callback, and none that is
  // pinned because a name server does not answer. Those stay until another
  // channel leaves.
  void Leave(SharedPoller* poller);

  // Returns the counters of all pollers, including those that have ended.
  PollerMetrics Metrics();

  // The process's channels that wait to try to connect again.
  BackoffCrowd* backoff_crowd() { return &backoff_crowd_; }

 private:
  struct Member {
    std::unique_ptr<SharedPoller> poller;
    absl::Duration spin_budget;
    int channels;
  };

  static SharedPollers& TheOne(Drive drive);
  absl::StatusOr<std::unique_ptr<SharedPoller>> Make(
      absl::Duration spin_budget) const;
  // The pollers that there are now, which in a simulation only come and go
  // between two steps.
  std::vector<SharedPoller*> Present();

  const size_t most_;
  const Drive drive_;
  uint64_t seed_ = 0;  // For a poller that is driven by step.
  BackoffCrowd backoff_crowd_;
  base::Mutex mutex_;
  std::vector<Member> members_ ABSL_GUARDED_BY(mutex_);
  PollerMetrics ended_ ABSL_GUARDED_BY(mutex_);  // Sums of those that ended.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_SHARED_POLLERS_H_
