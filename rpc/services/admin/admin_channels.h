// The channels of a program that the status page of its server shows.
//
//   options.channels = std::make_shared<verbena::AdminChannels>();
//   options.channels->AddChannel(channel);  // Now, or at any time later.
//   verbena::AddAdminPage(&builder, options);

#ifndef VERBENA_RPC_SERVICES_ADMIN_ADMIN_CHANNELS_H_
#define VERBENA_RPC_SERVICES_ADMIN_ADMIN_CHANNELS_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "rpc/channel.h"
#include "rpc/channel_state.h"
#include "rpc/metrics.h"
#include "transport/base/mutex.h"

namespace verbena {

// Keeps the channels that it was given. Thread-safe.
class AdminChannels final {
 public:
  static constexpr size_t kMostListed = 200;

  // A channel as it is now.
  struct Entry {
    std::string name;
    ChannelState state = ChannelState::kIdle;
    ChannelMetrics metrics;
  };
  struct List {
    std::vector<Entry> channels;  // The first kMostListed, by name.
    size_t count = 0;             // Including those that are not listed.
  };

  // Shows `channel`, and keeps it, until RemoveChannel() or the end of this.
  // The page names it `name`, its target if empty; of channels of one name the
  // later ones become "NAME#2", "NAME#3".
  void AddChannel(std::shared_ptr<Channel> channel, std::string name = "");
  // Drops it. Whoever relies on it that dropping the last reference waits for
  // callbacks calls this first: they have returned, or another still has the
  // channel. Nothing happens if it was not added.
  void RemoveChannel(const std::shared_ptr<Channel>& channel);

  List list() const;

 private:
  using Channels = std::map<std::string, std::shared_ptr<Channel>>;

  mutable base::Mutex mutex_;
  Channels channels_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena

#endif  // VERBENA_RPC_SERVICES_ADMIN_ADMIN_CHANNELS_H_
