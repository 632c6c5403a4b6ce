// Takes the connection manager's events to the connections they are about.

#ifndef VERBENA_TRANSPORT_CONNECTION_CM_WATCHER_H_
#define VERBENA_TRANSPORT_CONNECTION_CM_WATCHER_H_

#include <rdma/rdma_cma.h>

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "transport/connection/connection.h"
#include "transport/connection/poller.h"
#include "transport/verbs/event_channel.h"

namespace verbena::transport {

// Reads one event channel as part of a poller's ticks, so at most about a
// millisecond late while the poller spins, and at once when it sleeps. Events
// of ids that nobody watches are dropped.
//
// Owns the channel; the ids on it, and the connections it watches, must be gone
// before it. Confined to the poller's thread.
class CmWatcher final : public Pollable {
 public:
  explicit CmWatcher(EventChannel channel) : channel_(std::move(channel)) {}

  EventChannel& channel() { return channel_; }

  void Watch(Connection* connection) {
    connections_[connection->cm_id()] = connection;
  }
  void Unwatch(Connection* connection) {
    connections_.erase(connection->cm_id());
  }

  int Poll() override { return 0; }
  bool polls() const override { return false; }
  void Tick(absl::Time /*now*/) override {}
  void OnReadable() override;
  absl::Status Arm() override { return absl::OkStatus(); }
  int fd() const override { return channel_.fd(); }
  absl::Time NextTick() const override { return absl::InfiniteFuture(); }

 private:
  void Handle(const CmEvent& event);

  EventChannel channel_;
  absl::flat_hash_map<rdma_cm_id*, Connection*> connections_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CONNECTION_CM_WATCHER_H_
