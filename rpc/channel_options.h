// The options of a channel.

#ifndef VERBENA_RPC_CHANNEL_OPTIONS_H_
#define VERBENA_RPC_CHANNEL_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace verbena {

class BalancerFactory;           // rpc/balancer.h
class ClientInterceptorFactory;  // rpc/client_interceptor.h
class ResolverFactory;           // rpc/resolver.h

// The networks that may carry a channel's data between two hosts. Within a
// host, TCP stands for shared memory.
enum class Fabric {
  kAny,   // RDMA where it leads to the server and works, else TCP.
  kRdma,  // RDMA alone.
  kTcp,   // TCP alone.
};

// The place of a server or a client, from the widest part to the narrowest.
// Empty parts are unknown.
struct Locality {
  std::string region;
  std::string zone;
  std::string sub_zone;

  friend bool operator==(const Locality&, const Locality&) = default;
};

// A value out of range makes every call on the channel fail with
// INVALID_ARGUMENT, in words that name the field.
struct ChannelOptions {
  // The device to use: "soft" for the software device, else the name of an
  // RDMA device ("mlx5_0", "rxe0"). Empty: the environment variable
  // VERBENA_DEVICE if that is set, else the RDMA device that routes to the
  // server, else "soft". Channel::device() tells which device was chosen. A
  // device that is not there, or that does not lead to the server, makes calls
  // fail with FAILED_PRECONDITION.
  std::string device;

  // The fabric to use. If it is kAny, the environment variable VERBENA_FABRIC
  // may say "rdma" or "tcp" instead.
  //
  // If an RDMA device routes to the server, a channel with kAny tries RDMA, and
  // after a quarter of a second TCP beside it. The first connection that is
  // ready takes the calls. If RDMA fails later, the next connection goes by
  // TCP. ChannelMetrics::fabric names the fabric in use, and the reason. A
  // channel whose `device` is set has no second fabric.
  //
  // With kRdma, calls fail with UNAVAILABLE if no RDMA device routes to the
  // server. If `device` names a device of the other kind, they fail with
  // FAILED_PRECONDITION.
  Fabric fabric = Fabric::kAny;

  // The time between two attempts to return from TCP to RDMA, and the time for
  // which new connections go by TCP at once after RDMA has failed. When RDMA is
  // ready, new calls use it. The connection over TCP ends with its last call.
  absl::Duration rdma_retry_interval = absl::Seconds(10);

  // The networks over which the channel spreads its calls, from 1 to 8. A
  // server tells its clients all the addresses that it listens at. The channel
  // opens a connection to each one to which another network interface of this
  // host leads, by the fabric in use, up to this number. Each call goes to the
  // connection with the least open calls. If a connection fails, the others
  // carry on, and it is tried again every `rdma_retry_interval`. Each takes
  // memory of its own. 0: up to four with RDMA, whose NICs are mostly equal,
  // and one with TCP, because a host's other network may be a slow one. Within
  // a host, or if `device` names an RDMA device, there is always one
  // connection.
  int max_paths = 0;

  // Connections to an address, from 1 to 64. Another one is opened when the
  // others have as many calls open as they may (`max_concurrent_calls`, or the
  // server's limit), and closed again some seconds after fewer would do.
  int max_connections_per_address = 1;

  // The differentiated services code point (RFC 2474) of what the channel
  // sends, from 0 to 63: in the IP headers of RoCE and of TCP. -1: the
  // system's default. The switches, and for RoCE the NIC, decide what traffic
  // class it lands in (docs/deploying.md).
  int dscp = -1;

  // Largest serialised message in bytes, of each direction; at most 2 GiB - 1,
  // for which -1 stands, too. A longer one ends its call with
  // RESOURCE_EXHAUSTED. The default leaves room for a payload of 64 MiB and the
  // fields around it.
  uint64_t max_send_message_bytes = uint64_t{65} << 20;
  uint64_t max_receive_message_bytes = uint64_t{65} << 20;

  // Most bytes of metadata of each kind that a call accepts from its server,
  // counted as in metadata.h; at most 65,535. If a server has more to send, the
  // call ends with RESOURCE_EXHAUSTED. The server sets its own limit
  // (ServerBuilder::SetMaxMetadataSize). Raise this only for servers that are
  // trusted, because it is memory for each open call.
  uint32_t max_metadata_bytes = 8192;

  // Calls and streams that a connection of the channel may have open at once,
  // from 1 to 16,384, if its server allows as many
  // (ServerBuilder::SetMaxConcurrentCallsPerConnection). Further ones wait in
  // line until one has ended. Thousands of long streams take more than the
  // default; each costs the channel some hundred bytes, open or not.
  uint32_t max_concurrent_calls = 256;

  // Registered memory that large messages may occupy, in bytes. Calls wait
  // while all of it is in use. At least the sum of the two limits of messages.
  // 0: 512 MiB, or room for two of the largest requests and replies, each
  // rounded up to a power of two, if that is more.
  uint64_t max_arena_bytes = 0;

  // Registered memory that an idle connection keeps. Regions beyond it are
  // given back once nothing was in them for `memory_idle_time`, and after twice
  // that time at the latest. The first region, 1 MiB, always stays. Raise
  // either if large calls come now and then: to register the memory anew costs
  // such a call a fraction of a millisecond per MiB.
  uint64_t memory_floor_bytes = uint64_t{1} << 20;
  absl::Duration memory_idle_time = absl::Seconds(5);

  // Whether the server loses its right to write to an attachment of a reply
  // before the caller gets it. By default it may write there until its
  // connection ends, or the memory is lent again: for servers that are trusted.
  // (Messages are copied out of its reach in any case.) Takes a device with
  // memory windows of type 2, else calls end with FAILED_PRECONDITION; costs a
  // reply beyond 8 KiB one work request more.
  bool revoke_leases = false;

  // For how long a thread that waits for a reply polls at most before it
  // sleeps. Polling saves the tens of microseconds of a wake-up and costs a
  // processor meanwhile. The channel learns whether it pays: where waits are
  // mostly longer than this, or others want the processor, threads sleep at
  // once, whatever is said here, and now and then try for a few waits, four
  // times as long, whether it would pay again. The default is what a wake-up
  // costs. Zero: sleep after a few polls, always.
  absl::Duration spin_budget = absl::Microseconds(50);

  // Whether the callbacks of unary calls, the coroutines that await them, and
  // OnDone() of a ClientUnaryReactor promise not to block. If true, each runs
  // right where its reply was parsed: with 32 small calls at once that is a
  // seventh more calls a second. The thread is any that polls for the channel:
  // the library's, or one in a blocking call on this or another channel. Until
  // the callback returns, no other call makes progress. So it must take
  // microseconds, must not wait, and must not take a lock that may be held
  // during a blocking call. It may make asynchronous calls, and drop the
  // channel. If it begins a blocking call or stream, that ends with
  // FAILED_PRECONDITION. If it waits for a blocking stream that was begun
  // elsewhere, the process ends. A call that has interceptors, or that ends
  // without an answer of the server, is reported as if this were false.
  bool inline_callbacks = false;

  // The longest time that one attempt to connect may take.
  absl::Duration connect_timeout = absl::Seconds(5);

  // After a failed attempt the channel waits this long before the next, twice
  // as long after each further one, up to the second; each plus or minus a
  // fifth. If nobody listens at an address of this host on the software device,
  // the pause is half a second at most, because an attempt costs nobody else.
  // All channels of a process together try about 500 times a second at most.
  absl::Duration initial_backoff = absl::Milliseconds(50);
  absl::Duration max_backoff = absl::Seconds(5);

  // A channel without open calls for so long closes its connections, and for
  // twice as long at the latest. The next call connects anew. InfiniteDuration:
  // never.
  absl::Duration idle_timeout = absl::Minutes(30);

  // Whether all that a call sends travels with a CRC32C, both ways, and is
  // checked before anybody uses it: headers, metadata, messages, attachments.
  // Where bytes were damaged on their way the connection is dropped, and the
  // calls open on it end with DATA_LOSS; their handlers may have run. The same
  // holds if the server wants it (ServerBuilder::SetChecksum).
  // docs/security.md says what it costs. No protection against an attacker.
  bool checksum = false;

  // A connection on which nothing was heard for `keepalive_time` is probed;
  // when nothing comes for `keepalive_timeout` after that, every call on it
  // ends with UNAVAILABLE.
  absl::Duration keepalive_time = absl::Seconds(10);
  absl::Duration keepalive_timeout = absl::Seconds(10);

  // How to call the service: gRPC's service config, in JSON. A resolver may
  // have another one, which then holds instead. docs/services.md has all
  // fields.
  std::string service_config;

  // Bytes of messages that a stream with a `retryPolicy` keeps, so that they
  // can be sent again: those that it has written before anything has come from
  // the server, attachments included, and 8 more of each. A stream that writes
  // more is not tried again from then on. A call that has no policy keeps
  // nothing. gRPC's GRPC_ARG_PER_RPC_RETRY_BUFFER_SIZE.
  uint64_t retry_buffer_bytes = uint64_t{256} << 10;

  // The servers of a service to which the channel connects at most, from 0 to
  // 100,000. Of a larger service it chooses some by chance, which stay the same
  // while the channel lives. Each connection takes memory at both ends. 0: all.
  // With pick_first, which connects to one, this means nothing.
  int max_servers = 20;

  // The number of this client among those of the service, from 0 on, each used
  // once: that of a pod of a StatefulSet, say. Then servers of which clients
  // choose some have equal numbers of clients, to within one, and a client
  // chooses from half of max_servers to max_servers. -1: clients choose by
  // chance.
  int client_number = -1;

  // Where this process runs, for the policy `nearest`: see docs/services.md.
  Locality locality;

  // Resolvers beside those of the schemes ipv4, ipv6 and file. One of those
  // schemes takes the library's place. None may be null.
  std::vector<std::shared_ptr<ResolverFactory>> resolvers;

  // Policies that a service config may name, beside those of the library. None
  // may be null.
  std::vector<std::shared_ptr<BalancerFactory>> balancers;

  // Interceptors, which see every call of the channel: see
  // rpc/client_interceptor.h for their order. None may be null.
  std::vector<std::shared_ptr<ClientInterceptorFactory>> interceptors;
};

}  // namespace verbena

#endif  // VERBENA_RPC_CHANNEL_OPTIONS_H_
