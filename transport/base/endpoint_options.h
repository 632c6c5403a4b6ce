// Options of both ends of the transport.

#ifndef VERBENA_TRANSPORT_BASE_ENDPOINT_OPTIONS_H_
#define VERBENA_TRANSPORT_BASE_ENDPOINT_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "transport/base/credentials.h"
#include "transport/base/limits.h"

namespace verbena::transport {

struct EndpointOptions {
  // The device to use: "soft" for the software device, else the name of an RDMA
  // device ("mlx5_0", "rxe0"). Empty: the environment variable VERBENA_DEVICE
  // if that is set, else a client takes the RDMA device that routes to the
  // server's address and the software device when there is none, and a server
  // listens on all.
  std::string device;

  // The differentiated services code point of what this side sends, at most
  // kDscpMax; -1 for the system's default.
  int dscp = -1;

  // Largest message, in bytes, that this side accepts, and that it sends.
  // At most kMaxMessageBytes.
  uint64_t max_receive_message_bytes = kDefaultMaxMessageBytes;
  uint64_t max_send_message_bytes = kDefaultMaxMessageBytes;

  // Longest metadata, in bytes, that this side takes with a call, as they stand
  // on the wire. At most kMaxMetadataBytes.
  uint32_t max_metadata_bytes = kDefaultMaxMetadataBytes;

  // Calls that one connection may have open, at most; the smaller of both
  // sides' values counts. From 1 to kMaxOpenCalls. A client's further calls
  // wait.
  uint32_t max_open_calls = kDefaultMaxOpenCalls;

  // Server: how many of them may be streams; further ones end with
  // RESOURCE_EXHAUSTED. 0: all.
  uint32_t max_open_streams = 0;

  // Client: how many bytes of arenas one connection may grow to. Calls wait
  // while they are all in use. Must hold the largest request and the largest
  // reply at the same time.
  uint64_t max_arena_bytes = kDefaultLargeBytes;

  // Server: how many bytes of registered memory a poller may use on one device
  // for large requests and replies. Calls wait while they are all in use.
  uint64_t max_bulk_bytes = kDefaultLargeBytes;

  // While a pool of one of these two kinds has more than `memory_floor_bytes`
  // registered, it gives back memory that was not used for `memory_idle_time`.
  // It notices that after at most twice that time. Memory goes back in the
  // regions in which it came; the first region, 1 MiB, stays. If calls are
  // rare, larger values save them from registering memory again.
  uint64_t memory_floor_bytes = kDefaultMemoryFloorBytes;
  absl::Duration memory_idle_time = absl::Seconds(kDefaultMemoryIdleSeconds);

  // Requests, and replies for which there is no lease, go as several SENDs in a
  // row up to this length, if there are credits for that, and by READ and WRITE
  // above. More than kContinuedBytesMax counts as that; 0: never.
  uint32_t continued_bytes_max = kDefaultContinuedBytesMax;

  // Small requests, and replies, that are ready in the same round of a poller
  // travel in one SEND, if the peer understands that: a call then costs a
  // fraction of a work request. No call waits for others.
  bool trains = true;

  // How long a poller that finds nothing spins at most before it arms its
  // completion queues and sleeps. The default is about what a wake-up costs:
  // who spins so long in vain has lost as much again. SpinPolicy says when it
  // spins at all, and when it tries four times as long.
  absl::Duration spin_budget = absl::Microseconds(50);

  // How long setting up a connection may take. A server gives a client that
  // was accepted so much time for its HELLO.
  absl::Duration connect_timeout = absl::Seconds(5);

  // A side that has heard nothing for `keepalive_time` sends a PING; when
  // nothing comes for `keepalive_timeout` after that, the peer is dead and
  // every call ends with UNAVAILABLE. A server sends one as well to a client
  // without calls, after twice as long each time, up to 64 times as long.
  absl::Duration keepalive_time = absl::Seconds(10);
  absl::Duration keepalive_timeout = absl::Seconds(10);

  // Server: for how long a client that is alive may keep it waiting without
  // any progress: with a frame that was begun, with credits for what is to be
  // sent, with a READ, WRITE or SEND that does not complete: then the
  // connection ends; or with memory for the reply that has waited longest: then
  // the call ends. Nothing of a call waits for its client beyond its deadline
  // either, but what its device may still access.
  absl::Duration stall_timeout = absl::Seconds(kDefaultStallSeconds);

  // Client: lends memory for a reply through a memory window, which the
  // server's answer invalidates, instead of by the arena's key: when a call has
  // ended nobody can write to its attachment. Takes a device that has windows
  // of type 2 (else FAILED_PRECONDITION), and costs each reply beyond a frame a
  // work request.
  bool revoke_leases = false;

  // Client: whether it asks the server for its other addresses.
  bool ask_addresses = false;

  // Every frame, and what else a call has in an arena, travels with a CRC32C,
  // both ways, on each connection of which either side wants it. A call whose
  // bytes were damaged ends with DATA_LOSS, as do all others that are open on
  // the connection, which is dropped.
  bool checksum = false;

  // Server: clients are to send the name of the method with each call, and not
  // only what stands for it.
  bool method_names = false;

  // Client: what it shows to servers, and has them show; null for nothing. (A
  // server's belong to its addresses: see ServerEndpoint::Options.)
  std::shared_ptr<const ClientCredentials> credentials;
  // Client: PeerFacts::name of its servers.
  std::string server_name;
};

// Sets max_arena_bytes and max_bulk_bytes to kDefaultLargeBytes, or to room for
// two of the largest messages of each direction if that is more.
// REQUIRES: CheckOptions() accepts the limits of messages.
void SetDefaultMemory(EndpointOptions* options);

// OK, or INVALID_ARGUMENT with what is wrong.
absl::Status CheckOptions(const EndpointOptions& options);

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_BASE_ENDPOINT_OPTIONS_H_
