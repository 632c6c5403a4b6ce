// The arena memory that one call of a client holds.

#ifndef VERBENA_TRANSPORT_CLIENT_CALL_MEMORY_H_
#define VERBENA_TRANSPORT_CLIENT_CALL_MEMORY_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "transport/base/buffer.h"
#include "transport/base/limits.h"
#include "transport/client/lease_windows.h"
#include "transport/polling/poller.h"
#include "transport/streams/long_message.h"

namespace verbena::transport {

// Memory that the server may use for the long messages of a stream.
struct StreamMemory {
  std::vector<Buffer> leases;    // The server may WRITE them.
  bool lends = false;            // The server may wait for a lease.
  std::deque<LongMessage> sent;  // The server may READ them.
  uint64_t sent_count = 0;       // All that were ever sent.
  uint64_t sent_limit = kStreamLongMessages;

  bool empty() const { return leases.empty() && sent.empty(); }
};

// The server may read and write this memory from when the frame is sent that
// names it until the RESPONSE has come, or the queue pair is gone.
struct CallMemory {
  Buffer request;     // What the server READs: metadata and message.
  Buffer attachment;  // The server READs it, too.
  Buffer plain;       // Room for the message that is sealed to `request`.
  Buffer reply;       // The lease: what it may WRITE, all of it.
  // The window that `reply` is lent through; null if it is lent by the key of
  // its arena.
  LeaseWindow* window = nullptr;
  std::unique_ptr<StreamMemory> stream;  // Null if there is none.
  // How many of these bytes the poller was told of.
  int64_t noted_bytes = 0;

  bool empty() const {
    return request.empty() && attachment.empty() && reply.empty() &&
           (stream == nullptr || stream->empty());
  }
  // Whether Free() would do nothing.
  bool unused() const {
    return noted_bytes == 0 && stream == nullptr && empty();
  }

  // The server knows of the memory from now on.
  void Note(Poller& poller) {
    if (empty()) return;
    noted_bytes =
        static_cast<int64_t>(request.size() + attachment.size() + reply.size());
    poller.NoteTransfer(noted_bytes);
  }

  // The lease's own key; 0 if it has none.
  uint32_t lease_rkey() const { return window == nullptr ? 0 : window->rkey; }

  // Gives all of it back but for the window, of which it has none.
  void Free(Poller& poller) {
    poller.NoteTransfer(-std::exchange(noted_bytes, 0));
    request.Reset();
    attachment.Reset();
    plain.Reset();
    reply.Reset();
    stream.reset();
  }
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CLIENT_CALL_MEMORY_H_
