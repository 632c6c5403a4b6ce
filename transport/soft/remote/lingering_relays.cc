#include "transport/soft/remote/lingering_relays.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "transport/base/clock.h"

namespace verbena::soft {

uint64_t LingeringRelays::Add(std::function<void()> end) {
  std::function<void()> end_oldest;
  uint64_t name;
  {
    const base::MutexLock lock(mutex_);
    name = next_++;
    relays_.emplace(name, Lingering{std::move(end)});
    if (relays_.size() > kMax) end_oldest = relays_.begin()->second.end;
  }
  // Without the mutex, because it leads to Remove().
  if (end_oldest != nullptr) end_oldest();
  return name;
}

void LingeringRelays::Warn(absl::string_view text) {
  const base::MutexLock lock(mutex_);
  warning_.Say(text);
}

void LingeringRelays::NoteSent(uint64_t name) {
  const base::MutexLock lock(mutex_);
  const auto found = relays_.find(name);
  if (found != relays_.end()) found->second.sent = true;
  changed_.NotifyAll();
}

void LingeringRelays::Remove(uint64_t name) {
  const base::MutexLock lock(mutex_);
  relays_.erase(name);
  changed_.NotifyAll();
}

bool LingeringRelays::AllSent() const {
  return std::all_of(relays_.begin(), relays_.end(),
                     [](const auto& entry) { return entry.second.sent; });
}

void LingeringRelays::AwaitSent(std::chrono::nanoseconds longest) {
  const absl::Time deadline = base::Now() + absl::FromChrono(longest);
  const base::MutexLock lock(mutex_);
  while (!AllSent() && changed_.WaitUntil(mutex_, deadline)) {
  }
}

}  // namespace verbena::soft
