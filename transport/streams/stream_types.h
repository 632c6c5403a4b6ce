// Types and limits that the two halves of a stream share.

#ifndef VERBENA_TRANSPORT_STREAMS_STREAM_TYPES_H_
#define VERBENA_TRANSPORT_STREAMS_STREAM_TYPES_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "transport/base/buffer.h"
#include "transport/base/limits.h"

namespace verbena::transport {

// The result of reading or writing a message.
enum class StreamResult : uint8_t {
  kDone,
  kWait,  // The owner is told when to call again.
  kOver,  // There will be nothing more.
  kNoMemory,
  kTooLong,  // A message that is written is longer than it may be.
};

enum class StreamSent : uint8_t {
  kFrame,
  kNothing,  // There is nothing that may be sent.
  kBlocked,  // There is something, and the connection has no room for it.
};

// Views that are valid until the next message is read.
struct StreamMessage {
  absl::Span<const uint8_t> message;
  absl::Span<const uint8_t> attachment;
  // If not null, `attachment` is all of it, and may be taken.
  Buffer* attachment_buffer = nullptr;
};

// A longer message, attachment included, is kept in Buffers of its own.
inline constexpr uint64_t kLongMessageBytes = 16 << 10;
// Bytes of memory that an empty buffer of a stream keeps.
inline constexpr size_t kKeptBytes = kStreamOutboxBytes;

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_STREAMS_STREAM_TYPES_H_
