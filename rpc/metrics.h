// The counters of servers and channels.
//
//   const verbena::ServerMetrics metrics = server->GetMetrics();
//   for (const verbena::MethodMetrics& method : metrics.methods) {
//     std::cout << method.name << ": " << method.started << " calls, "
//               << method.open() << " of them open\n";
//   }
//
// Plain values. Each is exact, but they are not all taken at the same
// nanosecond. A value only grows, for as long as its server, channel or poller
// lives, unless its comment says that it goes up and down. docs/metrics.md
// tells how to export them to Prometheus.
//
// Verbs do not report what a device does by itself, such as sending a packet
// again, or being told that the other side had no receive (RNR). They only
// report that it has given up. For the rest see
// /sys/class/infiniband/*/ports/*/hw_counters, which count for all processes
// that use the device.

#ifndef VERBENA_RPC_METRICS_H_
#define VERBENA_RPC_METRICS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "rpc/channel_state.h"

namespace verbena {

// A histogram of the latency of calls. Every call is timed but in two cases:
// handlers that a server runs on its pollers (HandlerMode::kInline), and calls
// of a channel that has eight or more open. There one call in eight is timed,
// and stands for those before it, because looking at a clock for each would
// take as long as counting all the rest.
struct LatencyMetrics {
  // The upper bound doubles from bucket to bucket: the first ends at 1.024 us,
  // the last but one at 17.2 s, and the last has no end.
  static constexpr size_t kBuckets = 26;
  // Returns the bucket's upper bound, which itself is in the bucket. REQUIRES:
  // `bucket` is not the last.
  static constexpr double UpperBoundSeconds(size_t bucket) {
    return 1.024e-6 * static_cast<double>(uint64_t{1} << bucket);
  }

  std::array<uint64_t, kBuckets> counts = {};  // Not cumulative.
  double sum_seconds = 0;
};

// The calls of one method. At a server they begin when the poller has the
// request, and end when the reply is given to the transport. At a client they
// are what the caller sees, including those that could not be made, except
// those that their own arguments or interceptors kept from beginning.
struct MethodMetrics {
  static constexpr size_t kCodes = 17;  // absl::StatusCode, from OK on.

  // The method's name, "helloworld.Greeter/SayHello". At a server, "generic
  // call" and "generic stream" stand for all that a generic service answers. At
  // a client, kOtherMethods stands for those beyond the first thousand.
  std::string name;
  bool streams = false;
  uint64_t started = 0;
  std::array<uint64_t, kCodes> ended = {};  // By status code.
  LatencyMetrics latency;                   // Calls that have ended.
  // Serialised messages and attachments. Those of streams are added when their
  // calls have ended.
  uint64_t request_bytes = 0;
  uint64_t response_bytes = 0;
  // Messages of streams, added when their calls have ended.
  uint64_t stream_requests = 0;
  uint64_t stream_responses = 0;

  uint64_t ended_in_all() const;
  // Goes up and down.
  uint64_t open() const { return started - ended_in_all(); }
};
inline constexpr char kOtherMethods[] = "other";

// The connections on one device, and their resources.
struct DeviceMetrics {
  std::string device;  // "soft", "rxe0".

  // Connections in a state; these go up and down.
  uint64_t connecting = 0;  // Not let in yet.
  uint64_t open = 0;
  uint64_t closing = 0;

  uint64_t connections_begun = 0;
  uint64_t failed_handshakes = 0;  // Ended before they were open.
  uint64_t unopened = 0;  // Ended because a sealed frame or part did not open.
  // Connections that the device gave up: the peer did not answer in time, or
  // had no receive posted, which is a bug of either side.
  uint64_t retries_exceeded = 0;
  uint64_t rnr_retries_exceeded = 0;
  uint64_t credit_waits = 0;  // Times that a frame had to wait for a credit.
  // Calls of a client that had to wait, because their connection had as many
  // open as it may (ChannelOptions::max_concurrent_calls).
  uint64_t slot_waits = 0;

  // These go up and down, and are as of the last look, mostly a millisecond
  // ago. `frame_bytes` are registered for frames. `pool_bytes` are registered
  // for large messages: in arenas at a client, in the bulk pool at a server.
  // `pool_used_bytes` of those are in use.
  uint64_t frame_bytes = 0;
  uint64_t pool_bytes = 0;
  uint64_t pool_used_bytes = 0;
  // For a client: leases, to which servers may write replies, and calls in
  // quarantine, which have ended for their callers while the server may still
  // use their memory.
  uint64_t leases = 0;
  uint64_t quarantined_calls = 0;
};

// The pollers of a server, or those that all channels of a process share.
struct PollerMetrics {
  uint64_t pollers = 0;  // Goes up and down at a client.
  uint64_t polls = 0;    // Rounds, each a look at everything.
  uint64_t arms = 0;     // Times that a poller armed its queues.
  uint64_t sleeps = 0;   // Times that a poller slept in the kernel.
  std::vector<DeviceMetrics> devices;
};

// The result of Server::GetMetrics().
struct ServerMetrics {
  std::vector<MethodMetrics> methods;  // All registered methods.
  uint64_t unknown_methods = 0;  // Calls of methods that are not registered.
  // Calls that were refused because of SetMaxConcurrentCalls(), because of
  // SetMaxConcurrentStreams(), and because all workers and the queue were full.
  // Refusals by the queue also count as calls of their methods.
  uint64_t calls_over_limit = 0;
  uint64_t streams_over_limit = 0;
  uint64_t queue_refusals = 0;
  // Calls whose clients gave up while they waited for a worker.
  uint64_t unserved_calls = 0;
  uint64_t refused_connections = 0;  // Turned away before they began.
  uint64_t failed_authentications = 0;

  // Threads for handlers that may block, those of them that are idle, and the
  // calls that wait for one. These go up and down.
  uint64_t workers = 0;
  uint64_t idle_workers = 0;
  uint64_t queued_calls = 0;

  PollerMetrics pollers;
};

// A server of a channel. The fields go up and down.
struct ChannelServerMetrics {
  // As the resolver has it; with pick_first, which takes the first server that
  // answers, the channel's target.
  std::string address = {};
  uint32_t weight = 1;
  // The weight by the load that servers report; 0 while none counts.
  double load_weight = 0;
  // False if the server says that it is not, or does not answer, where the
  // service config has a healthCheckConfig. Then it gets no calls.
  bool healthy = true;
  // An outlier, which gets no calls for a while.
  bool ejected = false;
  // With a policy that spreads calls, the attempts of calls there: all, and
  // those that have not ended.
  uint64_t calls = 0;
  uint64_t open_calls = 0;
  ChannelState state = ChannelState::kIdle;
  bool connected = false;
  // The reason why the last attempt to connect failed; empty after another one.
  std::string error = {};
  // As in ChannelMetrics.
  uint64_t paths = 0;
  std::string device = {};
  std::string fabric = {};
  std::string fabric_reason = {};
  absl::Time fabric_since = absl::InfinitePast();
};

// The result of Channel::GetMetrics().
struct ChannelMetrics {
  std::string target;
  bool connected = false;
  // Connections that take calls: see ChannelOptions::max_paths.
  uint64_t paths = 0;
  std::vector<ChannelServerMetrics> servers;
  // The way of the connection, and if there are several, of the first one that
  // takes calls; all are empty while there is none. `fabric` is
  // "rdma", "tcp", or "shm", the shared memory of this host. `fabric_reason`
  // says to people why it is that one.
  std::string device;
  std::string fabric;
  std::string fabric_reason;
  absl::Time fabric_since = absl::InfinitePast();
  std::vector<MethodMetrics> methods;  // The methods that were called.
  // Calls that were started again by the channel, because a server had
  // certainly not processed them.
  uint64_t retries = 0;
  // Connections that were made; all but the first are reconnects.
  uint64_t connects = 0;
  uint64_t failed_connects = 0;  // Attempts that failed, for any reason.
};

// Returns the counters of the pollers that all channels of this process share,
// including channels that are gone.
PollerMetrics ClientPollerMetrics();

}  // namespace verbena

#endif  // VERBENA_RPC_METRICS_H_
