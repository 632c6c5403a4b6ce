// A server's state at one moment: its connections, its open calls, its slow
// calls, and its limits.
//
// For people who look at a server; rpc/metrics.h has the counters. A status
// costs each poller some microseconds, and more with more calls. Once a second
// does no harm.

#ifndef VERBENA_RPC_SERVER_STATUS_H_
#define VERBENA_RPC_SERVER_STATUS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace verbena {

// The limits set by ServerBuilder; 0 is no limit.
struct ServerLimits {
  int64_t concurrent_calls = 0;
  int64_t concurrent_streams = 0;
  int64_t connection_calls = 0;
  int64_t worker_threads = 0;
  int64_t worker_queue = 0;
  // Registered memory for large messages, a poller and device.
  int64_t bulk_bytes = 0;
};

// A connection of a client, as it is now.
struct ConnectionStatus {
  std::string peer;
  std::string device;
  std::string state;  // "open", as in messages.
  uint32_t open_calls = 0;
  uint32_t credits = 0;  // Frames that may be sent to the client right now.
  uint32_t receive_window = 0;  // Receives that are reserved for the client.
};

// A call that has no reply yet.
struct OpenCallStatus {
  std::string method;
  std::string peer;
  std::string state;  // "at its handler", "waits for a worker".
  // Time since the poller had the request. Nothing if the handler does not have
  // the call: before that, and when its reply waits.
  std::optional<absl::Duration> age;
};

// A call that took longer than others, and has ended.
struct SlowCallStatus {
  std::string method;
  std::string peer;
  absl::StatusCode code = absl::StatusCode::kOk;
  absl::Duration latency;
  absl::Duration ended_ago;
};

// The result of Server::GetStatus().
struct ServerStatus {
  // Most connections, and most calls, that are listed per poller.
  static constexpr size_t kMostListed = 200;

  ServerLimits limits;
  std::vector<ConnectionStatus> connections;
  size_t connection_count = 0;  // Including those that are not listed.
  std::vector<OpenCallStatus> open_calls;  // In no order.
  size_t open_call_count = 0;  // Including those that are not listed.
  // The slowest calls that took more than a millisecond and ended in the last
  // minutes, in no order; a few of each poller. For handlers that run on a
  // poller (HandlerMode::kInline) one call in eight is timed, and the others
  // are not found here.
  std::vector<SlowCallStatus> slow_calls;
  // True if a poller did not answer in time, because an inline handler blocks,
  // for example, or has ended. Its part is missing.
  bool incomplete = false;
};

}  // namespace verbena

#endif  // VERBENA_RPC_SERVER_STATUS_H_
