// What servers and channels count.
//
//   const verbena::ServerMetrics metrics = server->GetMetrics();
//   for (const verbena::MethodMetrics& method : metrics.methods) {
//     std::cout << method.name << ": " << method.started << " calls, "
//               << method.open() << " of them open\n";
//   }
//
// Plain values, as of the moment at which they were taken, more or less: each
// is exact, but they are not all of the same nanosecond. What is not said to go
// up and down only grows, for as long as what counts it lives. docs/metrics.md
// tells how to export them to Prometheus.
//
// What a device does by itself, such as sending a packet again or being told
// that the other side had no receive (RNR), verbs do not tell; only that it has
// given up. For that, see /sys/class/infiniband/*/ports/*/hw_counters, which
// are the device's for all processes.

#ifndef VERBENA_RPC_METRICS_H_
#define VERBENA_RPC_METRICS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace verbena {

// How many calls took how long. Of handlers that a server runs on its pollers
// (HandlerMode::kInline), and of the calls of a channel that has eight or more
// open, one call in eight is timed, and stands for those before it that were
// not: to look at a clock for each would take as long as to count all the rest.
struct LatencyMetrics {
  // Each bucket reaches twice as far as the one before it: the first to 1.024
  // us, the last but one to 17.2 s, and the last one without end.
  static constexpr size_t kBuckets = 26;
  // What the bucket reaches to, that included. REQUIRES: it is not the last.
  static constexpr double UpperBoundSeconds(size_t bucket) {
    return 1.024e-6 * static_cast<double>(uint64_t{1} << bucket);
  }

  std::array<uint64_t, kBuckets> counts = {};  // Of each bucket alone.
  double sum_seconds = 0;
};

// The calls of one method. At a server they begin when the poller has the
// request, and end when the reply is given to the transport; at a client they
// are what the caller sees, those that could not be made included, but for what
// its own arguments or interceptors kept from beginning.
struct MethodMetrics {
  static constexpr size_t kCodes = 17;  // Of absl::StatusCode, from OK on.

  // "helloworld.Greeter/SayHello"; at a server "generic call" and "generic
  // stream" stand for all that a generic service answers, and at a client
  // kOtherMethods for those beyond the first thousand.
  std::string name;
  bool streams = false;
  uint64_t started = 0;
  std::array<uint64_t, kCodes> ended = {};  // By status code.
  LatencyMetrics latency;                   // Of those that have ended.
  // Serialised messages and attachments. Those of streams are added when their
  // calls have ended.
  uint64_t request_bytes = 0;
  uint64_t response_bytes = 0;
  // Messages of streams; likewise.
  uint64_t stream_requests = 0;
  uint64_t stream_responses = 0;

  uint64_t ended_in_all() const;
  // Goes up and down.
  uint64_t open() const { return started - ended_in_all(); }
};
inline constexpr char kOtherMethods[] = "other";

// The connections on one device, and what they have.
struct DeviceMetrics {
  std::string device;  // "soft", "rxe0".

  // Connections in a state; these go up and down.
  uint64_t connecting = 0;  // Those that have yet to be let in.
  uint64_t open = 0;
  uint64_t closing = 0;

  uint64_t connections_begun = 0;
  uint64_t failed_handshakes = 0;  // Connections that never were open.
  // Connections that the device gave up: the peer did not answer in time, or
  // had no receive posted, which is a bug of either side.
  uint64_t retries_exceeded = 0;
  uint64_t rnr_retries_exceeded = 0;
  uint64_t credit_waits = 0;  // How often a frame had to wait for a credit.
  // Calls of a client that had to wait because as many were open on their
  // connection as may be (ChannelOptions::max_concurrent_calls).
  uint64_t slot_waits = 0;

  // These go up and down, and are as of the last look, mostly a millisecond
  // ago. Registered for frames; registered for large messages, in arenas at a
  // client and in the bulk pool at a server; how much of the latter is in use.
  uint64_t frame_bytes = 0;
  uint64_t pool_bytes = 0;
  uint64_t pool_used_bytes = 0;
  // Of a client: what servers may write replies to, and the calls whose memory
  // they may still use although their callers have got an end.
  uint64_t leases = 0;
  uint64_t quarantined_calls = 0;
};

// The pollers of a server, or those that all channels of a process share.
struct PollerMetrics {
  uint64_t pollers = 0;  // How many there are; goes up and down at a client.
  uint64_t polls = 0;    // Looks at everything once.
  uint64_t arms = 0;     // Times that one has armed its queues, to sleep.
  uint64_t sleeps = 0;   // Times that one has entered the kernel to wait.
  std::vector<DeviceMetrics> devices;
};

// What Server::GetMetrics() tells.
struct ServerMetrics {
  std::vector<MethodMetrics> methods;  // All that are registered.
  uint64_t unknown_methods = 0;        // Calls of methods that are not.
  // Calls that were refused for SetMaxConcurrentCalls(),
  // SetMaxConcurrentStreams(), or because all workers and the queue were full.
  // The latter count among those of their methods, too.
  uint64_t calls_over_limit = 0;
  uint64_t streams_over_limit = 0;
  uint64_t queue_refusals = 0;
  // Calls whose clients gave up while they waited for a worker.
  uint64_t unserved_calls = 0;
  uint64_t refused_connections = 0;  // That were turned away before they began.
  uint64_t failed_authentications = 0;

  // Threads for handlers that may block, and the calls that wait for one. These
  // go up and down.
  uint64_t workers = 0;
  uint64_t idle_workers = 0;
  uint64_t queued_calls = 0;

  PollerMetrics pollers;
};

// What Channel::GetMetrics() tells.
struct ChannelMetrics {
  std::string target;
  std::string device;  // Empty while there is no connection.
  bool connected = false;
  std::vector<MethodMetrics> methods;  // Those that were called.
  // Calls that began anew by themselves, because a server had certainly done
  // nothing of them.
  uint64_t retries = 0;
  // Connections there were; all but the first are reconnects.
  uint64_t connects = 0;
  uint64_t failed_connects = 0;  // Attempts, whatever they failed for.
};

// Of all channels of this process, those that are gone included.
PollerMetrics ClientPollerMetrics();

}  // namespace verbena

#endif  // VERBENA_RPC_METRICS_H_
