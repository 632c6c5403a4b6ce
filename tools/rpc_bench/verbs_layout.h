// How both ends of a case divide their memory and queues.

#ifndef VERBENA_TOOLS_RPC_BENCH_VERBS_LAYOUT_H_
#define VERBENA_TOOLS_RPC_BENCH_VERBS_LAYOUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tools/rpc_bench/verbs_hello.h"

namespace verbena::bench {

// What a bulk echo SENDs: the number of the slot.
using BulkNotice = uint32_t;

// Slots begin on cache lines, so that copies are aligned.
inline uint64_t StrideOf(uint64_t bytes) {
  return std::max<uint64_t>(64, (bytes + 63) / 64 * 64);
}

// Receives are posted again so many at a time: a queue that is one deep gains
// nothing from more, and its slots stay in the cache.
inline uint32_t ReceiveBatch(const VerbsHello& hello) {
  return std::clamp<uint32_t>(hello.outstanding / 2, 1, 16);
}

// Receives that each end has for the other's SENDs. While a poll's answers
// leave, a batch and as many as that poll found are not posted, and all that
// may be outstanding must find one.
inline uint32_t ReceiveDepth(const VerbsHello& hello) {
  return std::max(hello.receive_depth,
                  2 * hello.outstanding + ReceiveBatch(hello));
}

// A message larger than the device takes in one request goes in several.
inline uint64_t ChunksOf(uint64_t bytes, uint64_t chunk_bytes) {
  return std::max<uint64_t>(1, (bytes + chunk_bytes - 1) / chunk_bytes);
}

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_VERBS_LAYOUT_H_
