// The checksums that frames end with where the peers have agreed on them: see
// "Checksums" in frame.h.

#ifndef VERBENA_TRANSPORT_WIRE_CHECKSUM_H_
#define VERBENA_TRANSPORT_WIRE_CHECKSUM_H_

#include <cstdint>

#include "absl/types/span.h"
#include "transport/wire/frame.h"

namespace verbena::transport {

// The CRC32C (Castagnoli) of `bytes`, or of these behind others whose CRC32C is
// `before`. Uses the instructions that the processor has for it.
uint32_t Crc32c(absl::Span<const uint8_t> bytes, uint32_t before = 0);

// Puts the checksums behind the `bytes` of `frame`, where there is room for
// them. Returns how long the frame has become.
uint32_t AppendSums(uint8_t* frame, uint32_t bytes, const PartSums& parts);

// Takes the checksums off the end of `frame`: puts what they say into `stated`,
// and what that should be of the frame itself into `found`. False if it is too
// short to have any. Never reads outside `frame`.
[[nodiscard]] bool TakeSums(absl::Span<const uint8_t>* frame, FrameSums* stated,
                            uint32_t* found);

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_WIRE_CHECKSUM_H_
