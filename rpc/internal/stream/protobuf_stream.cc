#include "rpc/internal/stream/protobuf_stream.h"

#include <cstring>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "rpc/internal/codec/protobuf_codec.h"

namespace verbena::internal {

using google::protobuf::MessageLite;
using Result = ProtobufStream::Result;

Result ProtobufStream::Fail(absl::Status* failure, absl::Status status) {
  *failure = std::move(status);
  // Release, behind the status, as failed() acquires. A thread that sees the
  // flag sees the reason.
  failed_.store(true, std::memory_order_release);
  return Result::kOver;
}

void ProtobufStream::TakeAttachment(
    const transport::MessageStream::Message& read, Buffer* attachment,
    Allocate allocate) {
  // The Buffer of a long message is handed over, so its bytes are not copied.
  if (read.attachment_buffer != nullptr) {
    *attachment = std::move(*read.attachment_buffer);
    return;
  }
  *attachment = allocate(read.attachment.size());
  if (read.attachment.empty()) return;
  std::memcpy(attachment->data(), read.attachment.data(),
              read.attachment.size());
}

Result ProtobufStream::Take(transport::MessageStream::Message* read) {
  // A failure of either direction ends the call, so neither goes on.
  if (failed()) return Result::kOver;
  const Result result = messages_.Read(read);
  if (result != Result::kNoMemory) return result;
  // Ends this call, not the process.
  return FailRead(absl::ResourceExhaustedError(
      "there is no memory for a copy of a message (see `ulimit -v`)"));
}

Result ProtobufStream::FailRead(absl::Status status) {
  return Fail(&read_failure_, std::move(status));
}

Result ProtobufStream::Skip() {
  transport::MessageStream::Message read;
  return Take(&read);
}

Result ProtobufStream::Read(MessageLite* message, Buffer* attachment,
                            Allocate allocate) {
  // The next one may need the memory.
  if (attachment != nullptr) attachment->Reset();
  transport::MessageStream::Message read;
  const Result result = Take(&read);
  if (result != Result::kDone) return result;
  return Parse(read, message, attachment, allocate);
}

Result ProtobufStream::Parse(const transport::MessageStream::Message& read,
                             MessageLite* message, Buffer* attachment,
                             Allocate allocate) {
  read_count_.messages.Add();
  read_count_.bytes.Add(read.message.size() + read.attachment.size());
  absl::Status parsed = ParseMessage(read.message, message);
  // Before the attachment is taken, and before the hooks hear of a message.
  if (!parsed.ok()) return FailRead(std::move(parsed));
  if (attachment != nullptr) TakeAttachment(read, attachment, allocate);
  if (ABSL_PREDICT_FALSE(hooks_ != nullptr)) hooks_->OnReceiveMessage(message);
  return Result::kDone;
}

// Tells the hooks, checks the lengths, and writes the message straight into the
// stream. A write that must wait is called again with the message unchanged.
Result ProtobufStream::Write(const MessageLite& message, Attachment attachment,
                             Allocate allocate) {
  if (failed()) return Result::kOver;
  if (ABSL_PREDICT_FALSE(hooks_ != nullptr) &&
      !std::exchange(told_of_message_, true)) {
    hooks_->OnSendMessage(message);
  }
  // Checked by itself first, so that the subtraction below cannot wrap.
  const uint64_t attached = attachment.bytes().size();
  if (attached > max_message_bytes_) {
    return Fail(&write_failure_,
                absl::ResourceExhaustedError(absl::StrCat(
                    "an attachment of ", attached, " bytes is larger than ",
                    limit_name_, ", ", max_message_bytes_)));
  }
  const absl::StatusOr<uint64_t> bytes =
      MeasureMessage(message, max_message_bytes_ - attached, limit_name_);
  if (!bytes.ok()) return Fail(&write_failure_, bytes.status());
  const Result result = messages_.Write(
      *bytes, attachment.bytes(), attachment.buffer(), allocate,
      [&](uint8_t* out) { WriteMessage(message, *bytes, out); });
  told_of_message_ = result == Result::kWait;  // To be written again.
  if (result == Result::kDone) {
    write_count_.messages.Add();
    write_count_.bytes.Add(*bytes + attached);
  }
  if (ABSL_PREDICT_FALSE(result == Result::kTooLong)) {
    return Fail(&write_failure_,
                absl::ResourceExhaustedError(absl::StrCat(
                    "a message of ", *bytes,
                    " bytes is larger than "
                    "maxRequestMessageBytes of the service config, ",
                    messages_.max_write_bytes())));
  }
  if (result != Result::kNoMemory) return result;
  return Fail(&write_failure_, absl::ResourceExhaustedError(absl::StrCat(
                                   "there is no memory for a message of ",
                                   *bytes, " bytes (see `ulimit -v`)")));
}

}  // namespace verbena::internal
