// Metadata as bytes: for each pair two lengths of 16 bits, little-endian, then
// the key and the value. Pairs stand in the map's order; nothing follows the
// last.

#ifndef VERBENA_RPC_INTERNAL_CODEC_METADATA_CODEC_H_
#define VERBENA_RPC_INTERNAL_CODEC_METADATA_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rpc/metadata.h"

namespace verbena::internal {

// Returns the bytes that WriteMetadata() will write: 0 for no metadata.
// RESOURCE_EXHAUSTED if no peer takes so much.
absl::StatusOr<uint32_t> MeasureMetadata(const Metadata& metadata);
// Returns the bytes of one pair.
size_t PairBytes(absl::string_view key, absl::string_view value);
// Returns what WriteMetadata() writes. REQUIRES: `bytes` is the result
// of MeasureMetadata().
std::string MetadataText(const Metadata& metadata, size_t bytes);

// Writes exactly MeasureMetadata(metadata) bytes; returns the end of them.
// REQUIRES: there is room for them before `limit`. A CHECK enforces it, because
// `out` is often a frame with other memory behind it.
uint8_t* WriteMetadata(const Metadata& metadata, uint8_t* out,
                       const uint8_t* limit);

// The parts of these two: one pair.
size_t PairBytes(size_t key_bytes, size_t value_bytes);
uint8_t* WritePair(absl::string_view key, absl::string_view value, uint8_t* out,
                   const uint8_t* limit);

// Adds the pairs in `bytes` to `*metadata`. INTERNAL if `bytes` is not what
// WriteMetadata() writes; `*metadata` then holds the pairs before the fault.
absl::Status ParseMetadata(absl::Span<const uint8_t> bytes, Metadata* metadata);

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CODEC_METADATA_CODEC_H_
