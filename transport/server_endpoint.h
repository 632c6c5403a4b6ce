// The transport of a server: listens on its devices and runs its pollers.

#ifndef VERBENA_TRANSPORT_SERVER_ENDPOINT_H_
#define VERBENA_TRANSPORT_SERVER_ENDPOINT_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/base/credentials.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/mutex.h"
#include "transport/polling/poller_counters.h"
#include "transport/server/listener.h"
#include "transport/server/server_call.h"
#include "transport/server/server_poller.h"
#include "transport/verbs/provider.h"

namespace verbena::transport {

// Serves calls on every address and device that it was told to, until
// Shutdown(). Any thread.
class ServerEndpoint {
 public:
  struct Options {
    EndpointOptions endpoint;
    // "0.0.0.0:50051", "[::1]:0" and the like; at least one.
    std::vector<std::string> addresses;
    // Credentials that clients must show, by index in `addresses`. Where the
    // entry is null or missing, clients must show none.
    std::vector<std::shared_ptr<const ServerCredentials>> credentials = {};
    // Threads that poll. Each connection belongs to one of them.
    int pollers = 1;
    // Listens with this provider alone instead of those that the device
    // suggests. For tests; outlives the endpoint.
    const Provider* provider = nullptr;
    // If set, there are no threads: the owner calls Step() again and again, and
    // Shutdown() calls this as long as it waits. For simulations.
    std::function<void()> wait = nullptr;
  };

  // An address that the endpoint listens on, with one provider.
  struct Listening {
    std::string address;  // "127.0.0.1:50051", the port that was chosen.
    int port = 0;
    std::string device;  // "soft", or "rdma" for every RDMA device it came to,
                         // or the name of the only one that is served.
    size_t address_index = 0;  // In Options::addresses.
  };

  // `handler` must outlive the endpoint. Fails if an address can't be listened
  // on by any device, or is taken on one.
  static absl::StatusOr<std::unique_ptr<ServerEndpoint>> Start(
      const Options& options, ServerHandler& handler);
  ServerEndpoint(const ServerEndpoint&) = delete;
  ServerEndpoint& operator=(const ServerEndpoint&) = delete;
  ~ServerEndpoint();  // Shutdown() at once.

  const std::vector<Listening>& listening() const { return listening_; }

  // Stops listening, so that another server can at once, tells clients to go
  // elsewhere, lets open calls finish until `deadline`, closes all connections
  // and joins the threads.
  // Waits for handlers that still have a call, however long they take.
  // Idempotent; not from a handler.
  void Shutdown(absl::Time deadline);

  // Does what there is to do now on the pollers. Returns whether there was
  // something. NextStep() is when there will be, if nothing happens before.
  // REQUIRES: Options::wait.
  bool Step();
  absl::Time NextStep() const;

  // Open connections of all pollers. May be a moment old.
  uint32_t connection_count() const;

  // Calls `visitor` for each poller, with what it counts and how many clients
  // it has refused.
  void VisitPollers(
      absl::FunctionRef<void(const PollerCounters&, uint64_t)> visitor) const;

  // Has `look` called with each poller, on the poller's thread, soon. Returns
  // how often that will be: pollers that have ended are not there to be looked
  // at.
  int Look(const std::function<void(ServerPoller&)>& look) const;

  // Memory that is registered for frames: it grows with the connections and
  // their traffic, and is kept. May be a moment old.
  uint64_t frame_bytes() const;
  // Memory that is registered for large requests and replies: it grows with
  // them, and is given back. May be a moment old.
  uint64_t bulk_bytes() const;

 private:
  ServerEndpoint() = default;
  absl::Status StartPollers(const Options& options, ServerHandler& handler);
  absl::Status Listen(const Options& options);
  absl::Status ListenOn(
      const std::string& address, const std::string& device,
      const Provider* wanted,
      const std::shared_ptr<const ServerCredentials>& credentials);
  absl::StatusOr<Listener*> ListenerFor(const Provider& provider,
                                        const std::string& device);
  // Notes by which addresses other hosts reach the server.
  void Announce(const Options& options);
  std::shared_ptr<const std::string> AnnouncedFor(
      const ServerCredentials* credentials) const;
  // For the next connection: the one that has the fewest.
  ServerPoller& NextPoller();
  void StopListening();
  void WaitFor(ServerPoller& poller);

  std::vector<std::unique_ptr<ServerPoller>> pollers_;
  // Once accepting_, only the first poller, which drives them, touches these.
  std::vector<std::pair<const Provider*, std::unique_ptr<Listener>>> listeners_;
  std::vector<Listening> listening_;
  // Clients are told only of addresses that want the same credentials.
  std::vector<
      std::pair<const ServerCredentials*, std::shared_ptr<const std::string>>>
      announced_;
  std::function<void()> wait_;  // See Options.
  int dscp_ = -1;               // See EndpointOptions.
  bool accepting_ = false;  // The listeners are in the first poller's hands.

  base::Mutex shutdown_mutex_;  // Held as long as Shutdown() runs.
  bool shut_down_ ABSL_GUARDED_BY(shutdown_mutex_) = false;

  mutable base::Mutex look_mutex_;
  bool ended_ ABSL_GUARDED_BY(look_mutex_) = false;  // Nobody polls any more.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SERVER_ENDPOINT_H_
