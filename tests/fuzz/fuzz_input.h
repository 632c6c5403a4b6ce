// Makes numbers and bytes of what a fuzzer gives.

#ifndef VERBENA_TESTS_FUZZ_FUZZ_INPUT_H_
#define VERBENA_TESTS_FUZZ_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace verbena::fuzz {

// Reads an input from its beginning. What lies behind its end reads as zeros.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : rest_(data, size) {}

  bool empty() const { return rest_.empty(); }

  // Takes a number, an enumerator, or a structure of these, with any value.
  template <typename T>
  T Take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value = {};
    TakeTo(reinterpret_cast<uint8_t*>(&value), sizeof(value));
    return value;
  }
  // Takes a number below `bound` from one byte. REQUIRES: bound <= 256.
  uint32_t Below(uint32_t bound) { return Take<uint8_t>() % bound; }
  bool Bool() { return Below(2) == 1; }

  // Takes `most` bytes, or all that are left.
  absl::Span<const uint8_t> Bytes(size_t most) {
    const absl::Span<const uint8_t> taken = rest_.subspan(0, most);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  absl::Span<const uint8_t> Rest() { return Bytes(rest_.size()); }

  void TakeTo(uint8_t* out, size_t bytes) {
    const absl::Span<const uint8_t> taken = Bytes(bytes);
    std::copy(taken.begin(), taken.end(), out);
  }

 private:
  absl::Span<const uint8_t> rest_;
};

inline absl::string_view AsText(absl::Span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Reads all bytes, so that a sanitizer finds bad ones.
inline void ReadAll(absl::Span<const uint8_t> bytes) {
  volatile uint8_t sink = 0;
  for (const uint8_t byte : bytes) sink = sink ^ byte;
}

}  // namespace verbena::fuzz

#endif  // VERBENA_TESTS_FUZZ_FUZZ_INPUT_H_
