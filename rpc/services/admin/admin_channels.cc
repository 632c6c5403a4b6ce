#include "rpc/services/admin/admin_channels.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace verbena {

void AdminChannels::AddChannel(std::shared_ptr<Channel> channel,
                               std::string name) {
  if (name.empty()) name = channel->target();
  const base::MutexLock lock(mutex_);
  std::string free = name;
  for (int i = 2; channels_.contains(free); ++i) {
    free = absl::StrCat(name, "#", i);
  }
  channels_.emplace(std::move(free), std::move(channel));
}

void AdminChannels::RemoveChannel(const std::shared_ptr<Channel>& channel) {
  Channels dropped;  // After the lock: its callbacks may come back here.
  const base::MutexLock lock(mutex_);
  for (auto entry = channels_.begin(); entry != channels_.end();) {
    const auto next = std::next(entry);
    if (entry->second == channel) dropped.insert(channels_.extract(entry));
    entry = next;
  }
}

// Holds the mutex throughout. A reference taken here might become the last one,
// and the channel would end here instead of where it was dropped.
AdminChannels::List AdminChannels::list() const {
  List list;
  const base::MutexLock lock(mutex_);
  list.count = channels_.size();
  for (const auto& [name, channel] : channels_) {
    if (list.channels.size() == kMostListed) break;
    list.channels.push_back({name, channel->state(), channel->GetMetrics()});
  }
  return list;
}

}  // namespace verbena
