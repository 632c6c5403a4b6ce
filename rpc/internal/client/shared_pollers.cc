#include "rpc/internal/client/shared_pollers.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "rpc/internal/client/background_thread.h"
#include "rpc/internal/metrics/poller_snapshot.h"
#include "transport/base/check.h"

namespace verbena::internal {
namespace {

// More processors than this do not get more pollers: each costs two threads.
constexpr size_t kMostPollers = 16;

// Leaves only what grows.
void ForgetPresent(DeviceMetrics* device) {
  device->connecting = device->open = device->closing = 0;
  device->frame_bytes = device->pool_bytes = device->pool_used_bytes = 0;
  device->leases = device->quarantined_calls = 0;
}

}  // namespace

// Makes the pollers at the first call, whose `drive` decides for the process.
SharedPollers& SharedPollers::TheOne(Drive drive) {
  // Never destroyed: channels may be, when the process ends.
  static SharedPollers* const pollers = new SharedPollers(
      drive == Drive::kByStep
          ? 1
          : std::clamp<size_t>(std::thread::hardware_concurrency(), 1,
                               kMostPollers),
      drive);
  return *pollers;
}

SharedPollers& SharedPollers::OfProcess() { return TheOne(Drive::kByThreads); }

SharedPollers& SharedPollers::Simulate() {
  SharedPollers& pollers = TheOne(Drive::kByStep);
  CHECK(pollers.drive_ == Drive::kByStep)
      << "the process had a channel before it was to be simulated";
  return pollers;
}

PollerMetrics SharedPollers::Metrics() {
  const base::MutexLock lock(mutex_);
  // Counters never fall, although pollers come and go.
  PollerMetrics metrics = ended_;
  for (const Member& member : members_) {
    AddPoller(member.poller->counters(), &metrics);
  }
  metrics.pollers = members_.size();
  return metrics;
}

std::vector<SharedPoller*> SharedPollers::Present() {
  // Copies the pointers, because a step may have a channel join or leave, which
  // takes the mutex.
  const base::MutexLock lock(mutex_);
  std::vector<SharedPoller*> pollers;
  for (const Member& member : members_) pollers.push_back(member.poller.get());
  return pollers;
}

bool SharedPollers::Step() {
  bool busy = false;
  for (SharedPoller* poller : Present()) busy = poller->Step() || busy;
  return busy;
}

void SharedPollers::Seed(uint64_t seed) {
  seed_ = seed;
  for (SharedPoller* poller : Present()) poller->Seed(seed);
}

absl::Time SharedPollers::NextStep() {
  absl::Time next = absl::InfiniteFuture();
  for (SharedPoller* poller : Present()) {
    next = std::min(next, poller->NextStep());
  }
  return next;
}

absl::StatusOr<std::unique_ptr<SharedPoller>> SharedPollers::Make(
    absl::Duration spin_budget) const {
  return drive_ == Drive::kByStep ? SharedPoller::CreateStepped(seed_)
                                  : SharedPoller::Create(spin_budget);
}

// Looks for the poller of that spin budget with the fewest channels. Makes
// another one if all have some and the limit allows it.
absl::StatusOr<SharedPoller*> SharedPollers::Join(absl::Duration spin_budget) {
  const base::MutexLock lock(mutex_);
  Member* best = nullptr;
  size_t count = 0;
  for (Member& member : members_) {
    if (member.spin_budget != spin_budget) continue;
    ++count;
    if (best == nullptr || member.channels < best->channels) best = &member;
  }
  if (best == nullptr || (best->channels > 0 && count < most_)) {
    absl::StatusOr<std::unique_ptr<SharedPoller>> poller = Make(spin_budget);
    if (poller.ok()) {
      best = &members_.emplace_back(
          Member{*std::move(poller), spin_budget, /*channels=*/0});
    } else if (best == nullptr) {
      // A process that is short of descriptors shares the pollers that it has.
      // Only the first channel of a spin budget fails.
      return poller.status();
    }
  }
  ++best->channels;
  return best->poller.get();
}

// Takes idle pollers out of the list under the mutex, and destroys them after
// it is released, because that waits for their threads.
void SharedPollers::Leave(SharedPoller* poller) {
  std::vector<std::unique_ptr<SharedPoller>> ended;
  {
    const base::MutexLock lock(mutex_);
    const auto left = std::find_if(members_.begin(), members_.end(),
                                   [poller](const Member& member) {
                                     return member.poller.get() == poller;
                                   });
    --left->channels;
    // These can't be waited for from inside.
    if (BackgroundThread::RunsAnyTask() ||
        poller->ownership().HeldByThisThread()) {
      return;
    }
    // All idle ones, because a callback or a pin may have kept an earlier one.
    std::erase_if(members_, [&ended](Member& member) {
      if (member.channels > 0 || member.poller->pinned()) return false;
      ended.push_back(std::move(member.poller));
      return true;
    });
    // With what they have had until now; what their last moments add, while
    // they are destroyed, is not counted.
    for (const auto& each : ended) AddPoller(each->counters(), &ended_);
    for (DeviceMetrics& device : ended_.devices) ForgetPresent(&device);
  }
}

}  // namespace verbena::internal
