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

  // A number, an enumerator, or a structure of such, of any value.
  template <typename T>
  T Take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value = {};
    TakeTo(reinterpret_cast<uint8_t*>(&value), sizeof(value));
    return value;
  }
  // A number below `bound`, which is at most 256, of one byte.
  uint32_t Below(uint32_t bound) { return Take<uint8_t>() % bound; }
  bool Bool() { return Below(2) == 1; }

  // At most so many bytes: those that there are.
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

// Reads all of it, for a sanitizer to see.
inline void ReadAll(absl::Span<const uint8_t> bytes) {
  volatile uint8_t sink = 0;
  for (const uint8_t byte : bytes) sink = sink ^ byte;
}

}  // namespace verbena::fuzz

#endif  // VERBENA_TESTS_FUZZ_FUZZ_INPUT_H_
