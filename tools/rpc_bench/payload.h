// The bytes that are echoed.

#ifndef VERBENA_TOOLS_RPC_BENCH_PAYLOAD_H_
#define VERBENA_TOOLS_RPC_BENCH_PAYLOAD_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace verbena::bench {

// A payload in which no two 256-byte blocks that are near are alike.
std::string Payload(uint64_t size_bytes);

// Makes the payload of call `number` differ from that of other calls, in its
// first eight bytes as far as there are so many.
void Stamp(uint64_t number, absl::Span<uint8_t> payload);

// OK, or DATA_LOSS when an echo is not what was sent: in length, and if
// `contents`, in any byte.
absl::Status CheckEcho(absl::Span<const uint8_t> got,
                       absl::Span<const uint8_t> want, bool contents);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_PAYLOAD_H_
