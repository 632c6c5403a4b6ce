// A digest, by which both sides check that they have the same bytes.

#ifndef VERBENA_EXAMPLES_FILE_TRANSFER_DIGEST_H_
#define VERBENA_EXAMPLES_FILE_TRANSFER_DIGEST_H_

#include <cstdint>

#include "absl/types/span.h"

namespace filetransfer {

// FNV-1a of 64 bits. It finds damaged and lost bytes, but does not protect from
// forged ones.
class Digest {
 public:
  void Add(absl::Span<const uint8_t> bytes) {
    for (const uint8_t byte : bytes) {
      value_ = (value_ ^ byte) * 0x100000001b3;
    }
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace filetransfer

#endif  // VERBENA_EXAMPLES_FILE_TRANSFER_DIGEST_H_
