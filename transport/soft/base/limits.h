// What the software device grants. query_device reports the same numbers.

#ifndef VERBENA_TRANSPORT_SOFT_BASE_LIMITS_H_
#define VERBENA_TRANSPORT_SOFT_BASE_LIMITS_H_

#include <cstdint>

namespace verbena::soft {

// Two ways to the same addresses: as many as path migration needs.
inline constexpr uint8_t kPorts = 2;

inline constexpr int kQueuePairsMax = 1 << 16;

// They have 24 bits on the wire.
inline constexpr uint32_t kQueuePairNumberMax = (1 << 24) - 1;

inline constexpr int kQueueDepthMax = 1 << 16;  // Of an SQ, an RQ or an SRQ.

// Entries of one work request. A request is copied with all its entries when it
// is posted and once more when it is taken, so the number stays small.
inline constexpr int kGatherEntriesMax = 32;

inline constexpr int kCompletionsMax = (1 << 20) - 1;  // Of one CQ.

// Inline data is kept in the send queue until it is acknowledged: this many
// bytes for each request there, if the user asks for so many.
inline constexpr uint32_t kInlineBytesMax = 512;

// RDMA READs and atomics outstanding, each direction.
inline constexpr int kReadsMax = 16;
inline constexpr uint32_t kMessageBytesMax = 1u << 31;

// Of an unreliable datagram: the path MTU, since it is one packet.
inline constexpr uint32_t kDatagramPayloadMax = 4096;
// In front of every one that is received.
inline constexpr uint32_t kGlobalRouteBytes = 40;

// What ibv_alloc_dm gives a context in all: as much as adapters have.
inline constexpr uint64_t kDeviceMemoryBytesMax = 1 << 20;

// A program that listens again after each connection is away for a moment,
// which peers on a network do not notice: their requests take longer. So long,
// in milliseconds, a request waits for a listener, and so often it looks.
inline constexpr int kListenerAwayMs = 100;
inline constexpr int kListenerLookMs = 5;

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_BASE_LIMITS_H_
