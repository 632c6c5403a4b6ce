// A poller of a server, its threads, and the connections that it serves.

#ifndef VERBENA_TRANSPORT_SERVER_SERVER_POLLER_H_
#define VERBENA_TRANSPORT_SERVER_SERVER_POLLER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/rare_warning.h"
#include "transport/base/thread_group.h"
#include "transport/device/cm_watcher.h"
#include "transport/device/memory_gauges.h"
#include "transport/device/poller_device.h"
#include "transport/device/removal_watch.h"
#include "transport/polling/poller.h"
#include "transport/polling/poller_threads.h"
#include "transport/polling/spin_policy.h"
#include "transport/server/server_admission.h"
#include "transport/server/server_call.h"
#include "transport/server/server_calls.h"
#include "transport/verbs/cm_id.h"
#include "transport/verbs/provider.h"
#include "transport/wire/hello.h"

namespace verbena::transport {

// A connection that a client asks for, before anybody accepted it.
struct IncomingConnection {
  const Provider* provider = nullptr;
  CmId id;
  ConnectRequest request;
  uint8_t initiator_depth = 0;  // READs that the client's side allows.
  AdmissionTerms terms;
};

// Owns a poller and its threads, and the queues and connections of every device
// on which a connection came to it. One thread at a time, the owner, polls;
// another takes over when it is held up: see PollerThreads.
//
// `handler` and the Providers must outlive it. Methods may be called from any
// thread.
class ServerPoller final : private Pollable {
 public:
  static absl::StatusOr<std::unique_ptr<ServerPoller>> Start(
      const EndpointOptions& options, ServerHandler& handler);
  // Starts without threads, for simulations that call Step() until ended().
  static absl::StatusOr<std::unique_ptr<ServerPoller>> StartStepped(
      const EndpointOptions& options, ServerHandler& handler);
  ServerPoller(const ServerPoller&) = delete;
  ServerPoller& operator=(const ServerPoller&) = delete;
  // REQUIRES: Join() has returned.
  ~ServerPoller() override;

  Poller& poller() { return *poller_; }

  // Accepts the connection on this poller, or rejects it with a reason.
  void Accept(IncomingConnection incoming);

  // How many connections there are, those on their way here included.
  uint32_t load() const {
    return incoming_.load(std::memory_order_relaxed) + connection_count();
  }

  // Begins to end: says GOAWAY to every client, lets open calls finish until
  // `deadline`, then closes every connection. The threads end when no handler
  // has a call any more.
  void Stop(absl::Time deadline);

  // Does what there is to do now. Returns whether there was something.
  // REQUIRES: it was made by StartStepped(), and has not ended.
  bool Step();
  // Whether all is closed after Stop(), on a poller without threads.
  bool ended() const { return stop_.ended; }

  // Waits for the threads to end. Once.
  void Join() { threads_.Join(); }

  // How many connections there are. May be a moment old.
  uint32_t connection_count() const {
    return connection_count_.load(std::memory_order_relaxed);
  }

  // Calls `visitor` for each connection. On the poller's thread.
  void VisitConnections(
      absl::FunctionRef<void(const ServerCalls&)> visitor) const {
    for (const auto& calls : connections_) visitor(*calls);
  }

  // How many clients were refused before they had a connection.
  uint64_t refused() const { return refused_.value(); }

  // Bytes registered for the connections' frames. May be a moment old.
  uint64_t frame_bytes() const {
    return frame_bytes_.load(std::memory_order_relaxed);
  }
  // Bytes registered for large requests and replies. May be a moment old.
  uint64_t bulk_bytes() const {
    return bulk_bytes_.load(std::memory_order_relaxed);
  }

 private:
  struct Device {
    std::unique_ptr<PollerDevice> device;
    std::unique_ptr<MemoryGauges> gauges;   // They show its shared memory.
    std::unique_ptr<RemovalWatch> removal;  // Null if it cannot be removed.
  };

  // The progress of Stop().
  struct Stopping {
    bool begun = false;
    bool closing = false;  // Every connection has been told to close.
    bool ended = false;    // End() was called.
    absl::Time deadline = absl::InfiniteFuture();
    // Time from which clients that have not answered the GOAWAY have no more
    // calls served: such silence ends a connection otherwise.
    absl::Time refuse_time = absl::InfiniteFuture();
  };

  ServerPoller(const EndpointOptions& options, ServerHandler& handler,
               std::unique_ptr<Poller> poller);

  // Polls until all is closed, or another thread has taken the poller over.
  void Drive();
  bool AllClosed() const { return stop_.closing && connections_.empty(); }
  // On the owner.
  void End();
  // Accepts the first of waiting_, and posts itself for the others.
  void AcceptNext();
  void AcceptHere(IncomingConnection incoming);
  absl::Status TryAccept(IncomingConnection& incoming);
  // Ends the oldest connections that have not been let in, if `device` has no
  // room, and there are as many of those on it, or from the host of `peer`, as
  // there may be then.
  void EndOldestUnadmitted(const PollerDevice& device,
                           const base::SocketAddress& peer);
  absl::StatusOr<CmWatcher*> WatcherFor(const Provider& provider);
  // The device of `id`. REQUIRES: the id is one of WatcherFor(provider).
  absl::StatusOr<PollerDevice*> DeviceFor(const Provider& provider,
                                          const CmId& id);
  void StopHere(absl::Time deadline);
  bool AnyClosed() const;
  void Reap();
  // Destroys the devices that have failed or were removed, and that no
  // connection uses any more.
  void DropFinished();
  // No call is open nor will be, and every client has what was sent to it.
  bool Drained() const;

  // Pollable: reaps what has closed, gives idle memory back and watches over
  // the stop.
  int Poll() override { return 0; }
  bool polls() const override { return false; }
  void Tick(absl::Time now) override;
  absl::Status Arm() override { return absl::OkStatus(); }
  int fd() const override { return -1; }
  absl::Time NextTick() const override;

  const EndpointOptions options_;
  ServerHandler& handler_;
  const std::unique_ptr<Poller> poller_;
  SpinPolicy spin_;  // The owner's.
  PollerThreads threads_;
  std::atomic<uint32_t> incoming_{0};  // Given to Accept(), not yet looked at.
  std::atomic<uint32_t> connection_count_{0};
  std::atomic<uint64_t> frame_bytes_{0};
  std::atomic<uint64_t> bulk_bytes_{0};
  base::Counter refused_;

  // Only the owner touches what follows. In the order of dependence.
  absl::flat_hash_map<const Provider*, std::unique_ptr<CmWatcher>> watchers_;
  std::vector<Device> devices_;
  std::vector<std::unique_ptr<ServerCalls>> connections_;
  // Clients that wait for the rounds to come. Empty from StopHere() on.
  std::deque<IncomingConnection> waiting_;
  base::RareWarning refusal_;  // A client was refused.
  // A client was ended, not let in yet, because others came.
  base::RareWarning unadmitted_;
  // A client was dropped for keeping us waiting, or for damaged bytes.
  base::RareWarning lost_;
  Stopping stop_;
  absl::Time handler_tick_ = absl::InfiniteFuture();  // When it is due at last.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SERVER_SERVER_POLLER_H_
