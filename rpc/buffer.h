// Bytes beside a message: attachments.

#ifndef VERBENA_RPC_BUFFER_H_
#define VERBENA_RPC_BUFFER_H_

#include <concepts>
#include <cstdint>

#include "absl/types/span.h"
#include "transport/base/buffer.h"

namespace verbena {

// A movable handle on memory that a device may access: data(), size(), span().
// Buffers come from Channel::AllocateBuffer(), from
// ServerContext::AllocateBuffer(), and with what a peer sent. If a Buffer is
// sent through the channel or server that it came from, no CPU copies it on the
// way to the device. Any other is copied once. Share() makes another handle on
// the same bytes.
//
// A Buffer may outlive its channel, server and connection. While it lives it
// takes room of max_arena_bytes (client) or max_bulk_bytes (server), so copy
// what is to be kept for long. The server may write to a client's Buffer as
// long as the two are connected. Nobody else can write to the bytes that a
// server gets.
using Buffer = transport::Buffer;

// The bytes beside a message that is written to a stream. If the message is
// longer than some KiB, those of a Buffer are shared, not copied. Do not change
// them from then on, because they may be read after the write is done; use
// another Buffer for the next message. Any other bytes are copied. They, and
// the Buffer object, must stay alive until the write is done. An Attachment is
// made where it is needed: `stream.Write(message, buffer)`.
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
  // The Buffer that has the bytes; null if none has.
  const Buffer* buffer() const { return buffer_; }

 private:
  absl::Span<const uint8_t> bytes_;
  const Buffer* buffer_ = nullptr;
};

}  // namespace verbena

#endif  // VERBENA_RPC_BUFFER_H_
