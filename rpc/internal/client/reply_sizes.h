// The sizes of replies of each method, as the client remembers them.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_REPLY_SIZES_H_
#define VERBENA_RPC_INTERNAL_CLIENT_REPLY_SIZES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace verbena::internal {

// Guesses how large the next reply of a method will be: as large as the largest
// lately. A wrong guess costs a round trip or some idle arena memory, so
// methods that share an entry just push each other out. Not thread-safe.
class ReplySizes {
 public:
  uint64_t Guess(uint64_t method_id) const {
    const Entry& entry = entries_[method_id % kEntries];
    return entry.method_id == method_id ? entry.bytes : 0;
  }

  void Learn(uint64_t method_id, uint64_t reply_bytes) {
    Entry& entry = entries_[method_id % kEntries];
    if (entry.method_id != method_id) entry = {method_id, 0};
    // An eighth less each time, so that one giant is forgotten after a while.
    entry.bytes = std::max(reply_bytes, entry.bytes - entry.bytes / 8);
  }

 private:
  struct Entry {
    uint64_t method_id = 0;
    uint64_t bytes = 0;
  };
  static constexpr size_t kEntries = 64;

  std::array<Entry, kEntries> entries_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_REPLY_SIZES_H_
