#include "rpc/internal/metrics/channel_methods.h"

#include <algorithm>

namespace verbena::internal {
namespace {

// No hash of a name that anybody has.
constexpr uint64_t kOthers = 0;

}  // namespace

// Finds or makes the entry, and puts it in its direct place. Beyond kMost
// methods, further ones share an entry.
MethodCounters& ChannelMethods::FindSlow(uint64_t id, const char* name,
                                         bool streams) {
  Direct& direct = direct_[id % kDirect];
  direct.id = id;
  // Against snapshots: only one thread at a time comes here.
  const base::MutexLock lock(mutex_);
  auto found = entries_.find(id);
  if (found == entries_.end() && entries_.size() >= kMost) {
    id = kOthers;
    name = kOtherMethods;
    streams = false;
    found = entries_.find(id);
  }
  if (found == entries_.end()) {
    found = entries_.emplace(id, std::make_unique<Entry>()).first;
    found->second->name = name;
    found->second->streams = streams;
  }
  direct.counters = &found->second->counters;
  return *direct.counters;
}

std::vector<MethodMetrics> ChannelMethods::Snapshot() const {
  std::vector<MethodMetrics> methods;
  {
    const base::MutexLock lock(mutex_);
    for (const auto& [id, entry] : entries_) {
      MethodMetrics& method = methods.emplace_back();
      method.name = entry->name;
      method.streams = entry->streams;
      entry->counters.AddTo(&method);
    }
  }
  // Without the mutex, which calls of new methods need. A hash map has no order
  // of its own.
  std::sort(methods.begin(), methods.end(),
            [](const MethodMetrics& one, const MethodMetrics& other) {
              return one.name < other.name;
            });
  return methods;
}

}  // namespace verbena::internal
