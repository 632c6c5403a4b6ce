// The arenas of one client, as its server knows them.

#ifndef VERBENA_TRANSPORT_WIRE_REMOTE_ARENAS_H_
#define VERBENA_TRANSPORT_WIRE_REMOTE_ARENAS_H_

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "transport/base/limits.h"
#include "transport/wire/hello.h"

namespace verbena::transport {

// The arenas that one client offered, by index. Every range that the client
// names is checked here before it reaches a work request.
//
// Not thread-safe. Its end frees nothing at the client.
class RemoteArenas {
 public:
  // Address and key for a READ or WRITE.
  struct RemoteRange {
    uint64_t address = 0;
    uint32_t rkey = 0;
  };

  // Adds arena `index`. INVALID_ARGUMENT, with what was seen, if there is one
  // of that index, the index is too large, or the range is empty or wraps
  // around.
  absl::Status Add(uint16_t index, const ArenaDescriptor& arena);

  // Forgets arena `index`. INVALID_ARGUMENT if there is none, or for the first
  // one, which stays.
  absl::Status Remove(uint16_t index);

  // Finds `bytes` at `offset` of arena `arena`. Returns false, and leaves
  // `range` alone, unless all of it lies in an arena that was offered. An empty
  // range is never found.
  bool Find(uint16_t arena, uint32_t offset, uint64_t bytes,
            RemoteRange* range) const;

 private:
  std::array<ArenaDescriptor, kMaxArenas> arenas_;  // Unused ones have 0 bytes.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_WIRE_REMOTE_ARENAS_H_
