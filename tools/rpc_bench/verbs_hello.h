// The private data that the two ends of the verbs layer exchange when they
// connect, and the sizes that both derive from these data.

#ifndef VERBENA_TOOLS_RPC_BENCH_VERBS_HELLO_H_
#define VERBENA_TOOLS_RPC_BENCH_VERBS_HELLO_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tools/load/workload.h"

namespace verbena::bench {

// How the bytes of a case move.
enum class VerbsPlan : uint8_t {
  kSmallEcho = 1,  // A SEND each way.
  // The client SENDs the number of a slot; the server READs the slot's bytes,
  // WRITEs them back and SENDs the number.
  kBulkEcho = 2,
  // The client streams SENDs; the server SENDs nothing but how many receives it
  // has posted again.
  kSendStream = 3,
  kMemoryStream = 4,  // The client WRITEs or READs; the server does nothing.
};

enum class VerbsSide { kClient, kServer };

// The private data of both sides, in the bytes that go over the wire:
// little-endian, like all machines that this runs on. The client describes the
// case, and the server repeats it. Each side adds the address and key of its
// own memory. A connection serves one case.
struct VerbsHello {
  uint32_t magic = 0x344e4256;  // "VBN4".
  VerbsPlan plan = VerbsPlan::kSmallEcho;
  uint8_t events = 0;  // Not 0: sleep on completion channels between messages.
  uint16_t zero = 0;
  uint32_t outstanding = 1;
  // The client's memory, for a bulk echo: a slot for each call that the server
  // reads, then one for each that it writes. The server's, for a memory stream.
  uint32_t rkey = 0;
  uint64_t address = 0;
  uint64_t size_bytes = 0;

  absl::Span<const uint8_t> bytes() const {
    return {reinterpret_cast<const uint8_t*>(this), sizeof(*this)};
  }

  // Slots begin on cache lines, so that copies are aligned.
  uint64_t Stride() const {
    return std::max<uint64_t>(64, (size_bytes + 63) / 64 * 64);
  }

  // How many receives are posted again at a time: a queue that is one deep
  // gains nothing from more, and its slots stay in the cache.
  uint32_t ReceiveBatch() const {
    return std::clamp<uint32_t>(outstanding / 2, 1, 16);
  }

  // Receives that each end has for the other's SENDs. While a poll's answers
  // leave, a batch and as many as that poll found are not posted, and all that
  // may be outstanding must find one.
  uint32_t ReceiveDepth() const { return 2 * outstanding + ReceiveBatch(); }

  // Requests stay in a send queue until a completion that covers them is
  // polled, and the last of them may be one in sixteen.
  uint32_t SendDepth() const { return 2 * outstanding + 32; }

  // Slots that the memory of one end is made of. Those of the calls come first.
  // The client then has another for what comes back from each bulk echo, or the
  // receives of small ones. A server's small echo leaves from the slot that it
  // arrived in; there are more than receives, so that others are posted
  // meanwhile.
  uint64_t Slots(VerbsSide side) const {
    const bool client = side == VerbsSide::kClient;
    switch (plan) {
      case VerbsPlan::kSmallEcho:
        return ReceiveDepth() + (client ? outstanding : SendDepth());
      case VerbsPlan::kBulkEcho:
        return client ? 2 * outstanding : outstanding;
      case VerbsPlan::kSendStream:
        return client ? outstanding : ReceiveDepth();
      case VerbsPlan::kMemoryStream:
        break;
    }
    return outstanding;
  }
};
static_assert(sizeof(VerbsHello) == 32);  // InfiniBand carries 56.

// Returns the client's hello, still without the address and key of its memory.
VerbsHello HelloOf(const Case& measured, bool events);

// Most memory, in bytes, that either end of a case takes.
inline constexpr uint64_t kMaxVerbsMemoryBytes = uint64_t{2} << 30;

// Decodes `data`, which may be padded. Fails with INVALID_ARGUMENT if it is of
// another program, or asks for more memory than a server gives.
absl::StatusOr<VerbsHello> DecodeHello(absl::Span<const uint8_t> data);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_VERBS_HELLO_H_
