// Takes the connection manager's events to those they are about.

#ifndef VERBENA_TRANSPORT_DEVICE_CM_WATCHER_H_
#define VERBENA_TRANSPORT_DEVICE_CM_WATCHER_H_

#include <rdma/rdma_cma.h>

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "transport/polling/poller.h"
#include "transport/verbs/cm_event.h"
#include "transport/verbs/cm_id.h"
#include "transport/verbs/event_channel.h"

namespace verbena::transport {

// The owner of an id. Called on the poller's thread.
class CmEventHandler {
 public:
  // Handles an event about an id that is watched for this handler. May stop
  // watching the id and destroy it.
  virtual void OnCmEvent(const CmEvent& event) = 0;

 protected:
  ~CmEventHandler() = default;
};

// Reads one event channel as part of a poller's ticks. When the poller sleeps,
// it reads an event at once. While the poller spins, an event waits for the
// next look: a millisecond while a connection begins, else Poller::kSeldomLook.
// Events of ids that nobody watches are dropped.
//
// Owns the channel; the ids on it must be gone before it. Confined to the
// poller's thread.
class CmWatcher final : public Pollable {
 public:
  explicit CmWatcher(EventChannel channel) : channel_(std::move(channel)) {}

  EventChannel& channel() { return channel_; }

  void Watch(const CmId& id, CmEventHandler* handler) {
    handlers_[id.get()] = handler;
  }
  // Does nothing if `id` is not watched.
  void Unwatch(const CmId& id) { handlers_.erase(id.get()); }

  int Poll() override { return 0; }
  bool polls() const override { return false; }
  void Tick(absl::Time /*now*/) override {}
  void OnReadable() override;
  absl::Status Arm() override { return absl::OkStatus(); }
  int fd() const override { return channel_.fd(); }
  absl::Time NextTick() const override { return absl::InfiniteFuture(); }

 private:
  EventChannel channel_;
  absl::flat_hash_map<rdma_cm_id*, CmEventHandler*> handlers_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_DEVICE_CM_WATCHER_H_
