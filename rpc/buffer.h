// Bytes beside a message: attachments.

#ifndef VERBENA_RPC_BUFFER_H_
#define VERBENA_RPC_BUFFER_H_

#include <concepts>
#include <cstdint>

#include "absl/types/span.h"
#include "transport/base/buffer.h"

namespace verbena {

// A movable handle on memory that a device may access: data(), size(), span().
// Where from: Channel::AllocateBuffer(), ServerContext::AllocateBuffer(), and
// whatever a peer sent. A Buffer that is sent through the channel or from the
// server that it came from is copied by no CPU on the way to the device; any
// other is copied once. Share() makes another handle on the same bytes.
//
// It may outlive its channel, server and connection. While it lives it takes
// room among max_arena_bytes (client) or max_bulk_bytes (server): copy what is
// to be kept for long. Memory of a client's Buffer may be written by its server
// as long as they are connected; the bytes that a server gets are its own.
using Buffer = transport::Buffer;

// The bytes beside a message that is written to a stream. Those of a Buffer are
// shared, not copied, if the message is longer than some KiB: leave them alone
// from then on, because they may be read after the write is done, and use
// another Buffer for the next message. Any other bytes are copied; they, and
// the Buffer object, must be there until the write is done. Made where it is
// needed: `stream.Write(message, buffer)`.
class Attachment {
 public:
  Attachment() = default;
  Attachment(const Buffer& buffer)  // NOLINT: see above.
      : bytes_(buffer.span()), buffer_(buffer.empty() ? nullptr : &buffer) {}
  template <typename Bytes>
  requires std::convertible_to<const Bytes&, absl::Span<const uint8_t>>
  Attachment(const Bytes& bytes)  // NOLINT
      : bytes_(bytes) {}

  absl::Span<const uint8_t> bytes() const { return bytes_; }
  // Whose bytes they are; null if no Buffer's.
  const Buffer* buffer() const { return buffer_; }

 private:
  absl::Span<const uint8_t> bytes_;
  const Buffer* buffer_ = nullptr;
};

}  // namespace verbena

#endif  // VERBENA_RPC_BUFFER_H_
