// Sealing: encryption and authentication of all that a connection sends, once
// its credentials have agreed on keys.
//
// The transport numbers what it seals, and each side knows the number of the
// next frame without being told. So bytes that were altered, replayed,
// reordered, or moved to another call do not open. Whoever implements these
// classes derives one key for each direction and purpose, and makes the nonce
// from the number. No number is sealed twice.
//
// An object belongs to one connection, and is confined to its poller's thread.

#ifndef VERBENA_TRANSPORT_BASE_SEAL_H_
#define VERBENA_TRANSPORT_BASE_SEAL_H_

#include <algorithm>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"

namespace verbena::transport {

// The tag of an AEAD, behind each frame and for each chunk.
inline constexpr uint32_t kSealTagBytes = 16;
// A part beside its frame is sealed in chunks of this length, so that the
// poller is busy with one for no longer than that takes.
inline constexpr uint32_t kSealChunkBytes = 256 * 1024;

constexpr uint32_t SealChunks(uint64_t bytes) {
  return static_cast<uint32_t>((bytes + kSealChunkBytes - 1) / kSealChunkBytes);
}

// Seals what this side sends.
class Sealer {
 public:
  virtual ~Sealer() = default;
  // Encrypts `frame` in place, and writes its tag behind it.
  virtual void SealFrame(uint64_t number, absl::Span<uint8_t> frame) = 0;
  // Encrypts `plain` to `sealed`, which may be the same memory, and writes the
  // tag. Chunks are numbered apart from frames.
  virtual void SealChunk(uint64_t number, absl::Span<const uint8_t> plain,
                         uint8_t* sealed, uint8_t* tag) = 0;
};

// Opens what the peer has sealed. Where a method returns false, the bytes are
// not those that were sealed under that number, and must not be used.
class Opener {
 public:
  virtual ~Opener() = default;
  // Decrypts `frame` in place; its tag stands behind it.
  [[nodiscard]] virtual bool OpenFrame(uint64_t number,
                                       absl::Span<uint8_t> frame) = 0;
  // Decrypts a chunk in place.
  [[nodiscard]] virtual bool OpenChunk(uint64_t number,
                                       absl::Span<uint8_t> chunk,
                                       const uint8_t* tag) = 0;
};

// Both directions of one connection. Null: not yet, or never.
struct Seals {
  std::unique_ptr<Sealer> sealer;
  std::unique_ptr<Opener> opener;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_BASE_SEAL_H_
