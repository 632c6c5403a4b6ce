// Limits of the software device. query_device reports the same numbers.

#ifndef VERBENA_TRANSPORT_SOFT_BASE_LIMITS_H_
#define VERBENA_TRANSPORT_SOFT_BASE_LIMITS_H_

#include <bit>
#include <cstdint>

namespace verbena::soft {

// Two ways to the same addresses: as many as path migration needs.
inline constexpr uint8_t kPorts = 2;

inline constexpr int kQueuePairsMax = 1 << 16;

// Queue pair numbers have 24 bits on the wire.
inline constexpr uint32_t kQueuePairNumberMax = (1 << 24) - 1;

// The depth of a send queue, a receive queue or a shared receive queue.
inline constexpr int kQueueDepthMax = 1 << 16;

// Entries of one work request. A request is copied with all its entries when it
// is posted and once more when it is taken, so the number stays small.
inline constexpr int kGatherEntriesMax = 32;

// The depth of a completion queue.
inline constexpr int kCompletionsMax = (1 << 20) - 1;

// Inline data is kept in the send queue until it is acknowledged: this many
// bytes for each request there, if the user asks for so many.
inline constexpr uint32_t kInlineBytesMax = 512;

// The next three functions round up what a user asks for, as NICs do, because
// programs count on that. A depth is a power of two, that of a completion queue
// one less (as on mlx5). Some bytes may be inline even if the user asks for
// none at all.
inline constexpr uint32_t RoundedDepth(uint32_t asked) {
  return std::bit_ceil(asked);
}
inline constexpr int RoundedCompletions(int asked) {
  return static_cast<int>(std::bit_ceil(static_cast<uint32_t>(asked) + 1) - 1);
}
inline constexpr uint32_t RoundedInlineBytes(uint32_t asked) {
  constexpr uint32_t kStep = 32;
  return asked == 0 ? kStep : (asked + kStep - 1) / kStep * kStep;
}
static_assert(RoundedDepth(kQueueDepthMax) == kQueueDepthMax);
static_assert(RoundedCompletions(kCompletionsMax) == kCompletionsMax);
static_assert(RoundedInlineBytes(kInlineBytesMax) == kInlineBytesMax);

// RDMA READs and atomics outstanding, each direction.
inline constexpr int kReadsMax = 16;
inline constexpr uint32_t kMessageBytesMax = 1u << 31;

// The longest unreliable datagram: the path MTU, since it is one packet.
inline constexpr uint32_t kDatagramPayloadMax = 4096;
// The global route header in front of every datagram that is received.
inline constexpr uint32_t kGlobalRouteBytes = 40;

// Address handles of one context.
inline constexpr int kAddressHandlesMax = 1 << 16;

// Multicast groups of a process, each of which takes a descriptor, and the
// queue pairs in one of them.
inline constexpr int kGroupsMax = 256;
inline constexpr int kGroupMembersMax = 1024;

// Device memory of one context in all (ibv_alloc_dm): as much as adapters have.
inline constexpr uint64_t kDeviceMemoryBytesMax = 1 << 20;

// A program that listens again after each connection is away for a moment,
// which peers on a network do not notice, because their requests take longer.
// So a request waits for a listener that is away, for the first of these times,
// and looks for it at the interval of the second. Both are in milliseconds. A
// request within a host waits only if its program wants that: see
// full_provider.h.
inline constexpr int kListenerAwayMs = 100;
inline constexpr int kListenerLookMs = 5;

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_BASE_LIMITS_H_
