#include "rpc/internal/codec/protobuf_codec.h"

#include <climits>
#include <new>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "transport/base/check.h"

namespace verbena::internal {

using google::protobuf::MessageLite;

// Has the message cache the sizes of its parts, which WriteMessage() uses.
absl::StatusOr<uint64_t> MeasureMessage(const MessageLite& message,
                                        uint64_t limit,
                                        const char* limit_name) {
  if (ABSL_PREDICT_FALSE(!message.IsInitialized())) {
    return absl::InvalidArgumentError(absl::StrCat(
        message.GetTypeName(),
        " lacks required fields: ", message.InitializationErrorString()));
  }
  const uint64_t bytes = message.ByteSizeLong();
  if (ABSL_PREDICT_FALSE(bytes > limit)) {
    return absl::ResourceExhaustedError(
        absl::StrCat(message.GetTypeName(), " of ", bytes,
                     " bytes is larger than ", limit_name, ", ", limit));
  }
  return bytes;
}

void WriteMessage(const MessageLite& message, uint64_t bytes, uint8_t* out) {
  const uint8_t* end = message.SerializeWithCachedSizesToArray(out);
  // A user's thread may have changed the message. By now the memory behind it
  // may be overwritten, so the process ends.
  CHECK_EQ(static_cast<uint64_t>(end - out), bytes)
      << message.GetTypeName() << " was changed while its call was open";
}

// Parses without the check for required fields, which comes afterwards and has
// an error of its own.
absl::Status ParseMessage(absl::Span<const uint8_t> bytes,
                          MessageLite* message) {
  bool parsed = false;
  try {
    parsed = bytes.size() <= INT_MAX &&
             message->ParsePartialFromArray(bytes.data(),
                                            static_cast<int>(bytes.size()));
  } catch (const std::bad_alloc&) {
    // Leaves no half of a message behind.
    message->Clear();
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory to parse ", bytes.size(), " bytes as ",
                     message->GetTypeName(), " (see `ulimit -v`)"));
  }
  if (ABSL_PREDICT_FALSE(!parsed)) {
    return absl::InternalError(absl::StrCat(
        "can't parse ", bytes.size(), " bytes as ", message->GetTypeName()));
  }
  if (ABSL_PREDICT_FALSE(!message->IsInitialized())) {
    return absl::InternalError(absl::StrCat(
        message->GetTypeName(),
        " lacks required fields: ", message->InitializationErrorString()));
  }
  return absl::OkStatus();
}

}  // namespace verbena::internal
