#include "rpc/internal/client/shared_pollers.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "rpc/internal/client/background_thread.h"

namespace verbena::internal {
namespace {

// More processors than this do not get more pollers: each costs two threads.
constexpr size_t kMostPollers = 16;

}  // namespace

SharedPollers& SharedPollers::OfProcess() {
  // Never destroyed: channels may be, when the process ends.
  static SharedPollers* const pollers = new SharedPollers(
      std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMostPollers));
  return *pollers;
}

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
    absl::StatusOr<std::unique_ptr<SharedPoller>> poller =
        SharedPoller::Create(spin_budget);
    if (poller.ok()) {
      best = &members_.emplace_back(
          Member{*std::move(poller), spin_budget, /*channels=*/0});
    } else if (best == nullptr) {
      return poller.status();
    }
  }
  ++best->channels;
  return best->poller.get();
}

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
    if (BackgroundThread::RunsAnyErrand() ||
        poller->role().HeldByThisThread()) {
      return;
    }
    std::erase_if(members_, [&ended](Member& member) {
      if (member.channels > 0 || member.poller->pinned()) return false;
      ended.push_back(std::move(member.poller));
      return true;
    });
  }
}

}  // namespace verbena::internal
