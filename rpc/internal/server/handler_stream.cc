#include "rpc/internal/server/handler_stream.h"

#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "rpc/internal/codec/protobuf_codec.h"
#include "transport/connection/poller.h"

namespace verbena::internal {

using google::protobuf::MessageLite;
using Result = transport::MessageStream::Result;

HandlerStream::HandlerStream(transport::ServerCall* call,
                             uint64_t max_message_bytes)
    : call_(*call),
      messages_(*call->stream()),
      max_message_bytes_(max_message_bytes) {
  messages_.set_owner(this);
}

bool HandlerStream::Fail(absl::Status* failure, absl::Status status) {
  *failure = std::move(status);
  failed_.store(true, std::memory_order_relaxed);
  return false;
}

bool HandlerStream::Read(MessageLite* message, Buffer* attachment) {
  if (failed()) return false;
  transport::MessageStream::Message read;
  while (true) {
    const Result result = messages_.Read(&read);
    if (result == Result::kOver) return false;
    if (result == Result::kDone) break;
    if (!Await(&readable_)) return false;
  }
  absl::Status parsed = ParseMessage(read.message, message);
  if (!parsed.ok()) return Fail(&read_failure_, std::move(parsed));
  if (attachment != nullptr) {
    *attachment = call_.AllocateAttachment(read.attachment.size());
    if (!read.attachment.empty()) {
      std::memcpy(attachment->data(), read.attachment.data(),
                  read.attachment.size());
    }
  }
  return true;
}

bool HandlerStream::Write(const MessageLite& message,
                          absl::Span<const uint8_t> attachment) {
  if (failed()) return false;
  const uint64_t most = max_message_bytes_ < attachment.size()
                            ? 0
                            : max_message_bytes_ - attachment.size();
  const absl::StatusOr<uint64_t> bytes = MeasureMessage(
      message, most, "what the server's limit (SetMaxSendMessageSize) leaves");
  if (!bytes.ok()) return Fail(&write_failure_, bytes.status());
  while (true) {
    switch (messages_.Write(*bytes, attachment, [&](uint8_t* out) {
      WriteMessage(message, *bytes, out);
    })) {
      case Result::kDone:
        return true;
      case Result::kOver:
        return false;
      case Result::kWait:
        if (!Await(&writable_)) return false;
        break;
      case Result::kNoMemory:
        return Fail(&write_failure_,
                    absl::ResourceExhaustedError(absl::StrCat(
                        "the server has no memory for a message of ", *bytes,
                        " bytes (see `ulimit -v`)")));
    }
  }
}

void HandlerStream::PostStream() { call_.poller().Post(&messages_); }

void HandlerStream::Notify(bool* event) {
  const base::MutexLock lock(mutex_);
  *event = true;
  changed_.NotifyAll();
}

bool HandlerStream::Await(bool* event) {
  // The client's own deadline may be that much later.
  const absl::Time expiry = call_.deadline() + transport::Poller::kNowAgeMax;
  const base::MutexLock lock(mutex_);
  while (!*event) {
    if (!changed_.WaitUntil(mutex_, expiry) && !*event) return false;
  }
  *event = false;
  return true;
}

}  // namespace verbena::internal
