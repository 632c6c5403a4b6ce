// The connections of a subchannel to further addresses of its server.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_PATHS_H_
#define VERBENA_RPC_INTERNAL_CLIENT_PATHS_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "rpc/internal/client/resolution.h"
#include "rpc/internal/client/shared_poller.h"
#include "transport/base/endpoint_options.h"
#include "transport/client/client_connection.h"

namespace verbena::internal {

// Holds a connection to each of the endpoints that it is told to use, beside
// the first one of the subchannel. One that fails is tried again after a pause.
// If another server answers at an address, that address is given up.
//
// All functions REQUIRE the poller's ownership. The arguments of the
// constructor outlive this.
class Paths {
 public:
  using ClientConnection = transport::ClientConnection;
  using Endpoint = Resolution::Endpoint;

  // `observer` is told as ClientConnection::Observer has it, and is to call
  // Look() then. `retire` takes a connection that is to get no further calls;
  // it may have open ones.
  Paths(SharedPoller* poller, const transport::EndpointOptions& options,
        ClientConnection::Observer* observer,
        std::function<void(std::unique_ptr<ClientConnection>)> retire,
        absl::Duration retry_interval)
      : poller_(*poller),
        options_(options),
        observer_(observer),
        retire_(std::move(retire)),
        retry_interval_(retry_interval) {}
  Paths(const Paths&) = delete;
  Paths& operator=(const Paths&) = delete;

  // Has a connection to each of `endpoints`, and to no others. `server` is what
  // ServerAddresses calls the server.
  void Use(std::string server, const std::vector<Endpoint>& endpoints);
  // Uses none.
  void Clear() { Use("", {}); }

  // Looks what has become of each, and begins the attempts that are due.
  void Look(absl::Time now);
  // Time by which to call Look() if nothing happens before.
  absl::Time next_try() const;

  // True if no connection takes calls.
  bool empty() const { return ready_ == 0; }
  size_t ready() const { return ready_; }
  bool all_ready() const { return ready_ == paths_.size(); }

  // Returns the connection with the least open calls, of these and `first`,
  // which may be null; `first` if it is as good as any.
  ClientConnection* Least(ClientConnection* first) const;

  // The calls that are open on those that are ready.
  uint32_t open_calls() const;

  // Takes a connection that takes calls out of this, with its endpoint.
  // REQUIRES: !empty().
  std::pair<std::unique_ptr<ClientConnection>, Endpoint> Take();

 private:
  struct Path {
    Endpoint endpoint;
    std::unique_ptr<ClientConnection> connection;  // Null during a pause.
    bool ready = false;  // Answered by the same server.
    absl::Time next_try = absl::InfinitePast();
  };

  // Returns whether the path may still be used.
  bool LookAt(Path& path, absl::Time now);
  void NoteEnd(Path& path, absl::Time now);
  void Retire(Path& path);

  SharedPoller& poller_;
  const transport::EndpointOptions& options_;
  ClientConnection::Observer* const observer_;
  const std::function<void(std::unique_ptr<ClientConnection>)> retire_;
  const absl::Duration retry_interval_;
  std::string server_;
  std::vector<Path> paths_;
  size_t ready_ = 0;  // Paths that are ready.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_PATHS_H_
