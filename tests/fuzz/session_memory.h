// SessionMemory, the arenas and loans that the frames of a client announce.

#ifndef VERBENA_TESTS_FUZZ_SESSION_MEMORY_H_
#define VERBENA_TESTS_FUZZ_SESSION_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "transport/wire/hello.h"
#include "transport/wire/remote_arenas.h"

namespace verbena::transport {

// Memory that was lent for the reply of a call.
struct Loan {
  uint32_t call_id = 0;
  uint64_t address = 0;
  uint32_t bytes = 0;
  uint32_t rkey = 0;
  bool has_key = false;  // The key is its own, and not that of its arena.
  bool open = true;      // The server has not answered yet.
};

// The arenas and the loans of one client, as its server keeps them.
class SessionMemory {
 public:
  // Adds the first arena, which the private data describe.
  absl::Status Offer(const ArenaDescriptor& first) {
    return arenas_.Add(0, first);
  }
  // Reads a whole frame, or the first of one that is continued.
  // INVALID_ARGUMENT if its arena or loan is not valid.
  absl::Status Note(const std::string& frame);

  const RemoteArenas& arenas() const { return arenas_; }
  // All loans so far, the latest last.
  const std::vector<Loan>& loans() const { return loans_; }
  // Returns the open loan of a call; null if there is none.
  Loan* FindOpen(uint32_t call_id);

 private:
  absl::Status Lend(uint32_t call_id, uint16_t arena, uint32_t offset,
                    uint32_t bytes, uint32_t rkey);

  RemoteArenas arenas_;
  std::vector<Loan> loans_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TESTS_FUZZ_SESSION_MEMORY_H_
