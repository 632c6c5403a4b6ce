// Protobuf messages to and from the transport's memory, without a copy between.

#ifndef VERBENA_RPC_INTERNAL_CODEC_PROTOBUF_CODEC_H_
#define VERBENA_RPC_INTERNAL_CODEC_PROTOBUF_CODEC_H_

#include <climits>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "google/protobuf/message_lite.h"

namespace verbena::internal {

// Protobuf counts the bytes of a message in an int.
inline constexpr uint64_t kLongestMessageBytes = INT_MAX;

// Returns the serialised size of `message`, which WriteMessage() then relies
// on. INVALID_ARGUMENT if a required field is missing; RESOURCE_EXHAUSTED, with
// the name of the limit, if the size is above `limit`.
absl::StatusOr<uint64_t> MeasureMessage(
    const google::protobuf::MessageLite& message, uint64_t limit,
    const char* limit_name = "the limit");

// Writes `bytes` bytes, which is what MeasureMessage() said.
// REQUIRES: the message has not changed since.
void WriteMessage(const google::protobuf::MessageLite& message, uint64_t bytes,
                  uint8_t* out);

// Replaces `*message` by what `bytes` hold. INTERNAL if they are not a message
// of that type, or a required field is missing.
absl::Status ParseMessage(absl::Span<const uint8_t> bytes,
                          google::protobuf::MessageLite* message);

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CODEC_PROTOBUF_CODEC_H_
