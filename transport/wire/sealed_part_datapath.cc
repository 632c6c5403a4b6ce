#include <algorithm>
#include <cstring>

#include "transport/wire/sealed_part.h"

namespace verbena::transport {

uint64_t PartSeal::Step() {
  const uint64_t chunk = std::min<uint64_t>(kSealChunkBytes, bytes_ - done_);
  done_ += chunk;
  ++next_chunk_;
  tags_ += kSealTagBytes;
  return chunk;
}

void PartSeal::SealTo(uint64_t bytes) {
  bytes = std::min(bytes, bytes_);
  while (done_ < bytes) {
    const uint64_t start = done_;
    const uint64_t number = next_chunk_;
    uint8_t* const tag = tags_;
    const uint64_t chunk = Step();
    sealer_->SealChunk(number, {from_ + start, chunk}, part_ + start, tag);
  }
}

bool PartSeal::OpenTo(uint64_t bytes) {
  while (intact_ && done_ < bytes_ &&
         std::min<uint64_t>(done_ + kSealChunkBytes, bytes_) <= bytes) {
    const uint64_t start = done_;
    const uint64_t number = next_chunk_;
    const uint8_t* const tag = tags_;
    const uint64_t chunk = Step();
    if (from_ != nullptr) std::memcpy(part_ + start, from_ + start, chunk);
    intact_ = opener_->OpenChunk(number, {part_ + start, chunk}, tag);
  }
  return intact_;
}

}  // namespace verbena::transport
