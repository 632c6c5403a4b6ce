// A running server.

#ifndef VERBENA_RPC_SERVER_H_
#define VERBENA_RPC_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace verbena {

struct ServerMetrics;  // rpc/metrics.h
struct ServerStatus;   // rpc/server_status.h

namespace internal {
class ServerImpl;
}  // namespace internal

// Something that looks at a server, such as a status page: see
// ServerBuilder::AddExtension(). Destroyed at the beginning of the server's
// destructor, while all of the server is still there.
class ServerExtension {
 public:
  virtual ~ServerExtension() = default;
};

// Made by ServerBuilder::BuildAndStart(), and serves from then on, on threads
// of its own. The services must outlive it. All methods may be called from any
// thread. But handlers must not call Wait() or Shutdown(), nor destroy the
// server, because these wait for handlers.
class Server {
 public:
  // A device and an address on which the server listens.
  struct Listening {
    std::string address;  // "127.0.0.1:50051"; the port is never 0.
    int port = 0;
    std::string device;  // "soft", "rdma" for every RDMA device, or the name of
                         // the only one.
  };

  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  // As Shutdown(absl::Now()).
  ~Server();

  const std::vector<Listening>& listening() const { return listening_; }

  // Connections that ended before their clients had shown the credentials that
  // the port wants. The client had none or wrong ones, gave up, or said nothing
  // in time.
  uint64_t failed_authentications() const;

  // Returns the server's counters and present values: see rpc/metrics.h. Takes
  // microseconds, and holds nobody up.
  ServerMetrics GetMetrics() const;

  // Returns what the server is busy with: see rpc/server_status.h, which
  // callers must include. Waits for the pollers' answers, for `patience` at the
  // most. Not to be called from a handler that runs on a poller.
  ServerStatus GetStatus(
      absl::Duration patience = absl::Milliseconds(250)) const;

  // Blocks until the server has shut down.
  void Wait();

  // Stops listening, so that another server can listen there at once, and
  // has clients make no new calls here. Serves the calls that were sent by
  // then, closes the connections, and returns when every handler has
  // returned. Idempotent.
  //
  // Without a deadline it waits for as long as the calls take. At `deadline`,
  // calls that are still open end with UNAVAILABLE at their clients, and their
  // ServerContext::IsCancelled() turns true.
  void Shutdown(absl::Time deadline = absl::InfiniteFuture());

 private:
  friend class ServerBuilder;

  explicit Server(std::unique_ptr<internal::ServerImpl> impl);

  const std::unique_ptr<internal::ServerImpl> impl_;  // Never null.
  // These two are constant once BuildAndStart() has returned.
  std::vector<Listening> listening_;
  std::vector<std::unique_ptr<ServerExtension>> extensions_;
};

}  // namespace verbena

#endif  // VERBENA_RPC_SERVER_H_
