// Attempts to connect, on a thread of their own.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_CONNECTOR_H_
#define VERBENA_RPC_INTERNAL_CLIENT_CONNECTOR_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "transport/base/endpoint_options.h"
#include "transport/connection/client_connection.h"

namespace verbena::internal {

// Finding the server's addresses and connecting to one may block for seconds;
// the thread exists only that long. One attempt at a time.
//
// For one thread, which is another than the one that `on_done` is called on.
class Connector {
 public:
  using Result = absl::StatusOr<std::unique_ptr<transport::ClientConnection>>;

  // `on_done` gets the result of each attempt, on the attempt's thread. Errors
  // are UNAVAILABLE, unless another attempt can't go otherwise.
  Connector(std::string target, const transport::EndpointOptions& options,
            std::function<void(Result)> on_done);
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;
  // Waits for the attempt that is under way.
  ~Connector();

  // Begins an attempt. REQUIRES: on_done of the one before was called, or is
  // being called and will return soon.
  void Start();

 private:
  Result Connect() const;

  const std::string target_;
  const transport::EndpointOptions options_;
  const std::function<void(Result)> on_done_;
  std::thread thread_;  // Of the last attempt.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_CONNECTOR_H_
