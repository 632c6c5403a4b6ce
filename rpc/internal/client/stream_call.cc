#include "rpc/internal/client/stream_call.h"

#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "rpc/internal/client/channel_impl.h"
#include "rpc/internal/client/open_calls.h"
#include "rpc/internal/codec/metadata_codec.h"
#include "rpc/internal/codec/protobuf_codec.h"

namespace verbena::internal {

using google::protobuf::MessageLite;
using Result = transport::MessageStream::Result;

StreamCall::StreamCall(ChannelImpl* channel, std::shared_ptr<const void> owner,
                       const char* method_name, uint64_t method_id,
                       ClientContext* context)
    : OpenCall(channel->calls(), method_name, method_id, context),
      channel_(*channel),
      owner_(std::move(owner)),
      messages_(this, channel->max_receive_message_bytes(),
                "this client's max_receive_message_bytes",
                /*marks_end=*/true) {
  set_stream(&messages_);
  ReserveContext();
  started_ = OpenContext();
  if (!started_) return;
  in_background = true;
  channel_.Start(this);
}

StreamCall::~StreamCall() {
  if (finished_) return;
  if (started_) context_->TryCancel();
  Finish().IgnoreError();
}

bool StreamCall::GiveUp(absl::Status* failure, const absl::Status& status) {
  *failure = Explain(status);
  context_->TryCancel();
  return false;
}

bool StreamCall::Read(MessageLite* message, Buffer* attachment) {
  if (!started_) return false;
  transport::MessageStream::Message read;
  while (true) {
    const Result result = messages_.Read(&read);
    if (result == Result::kOver) return false;
    if (result == Result::kDone) break;
    Await(&readable_);
  }
  const absl::Status parsed = ParseMessage(read.message, message);
  if (!parsed.ok()) return GiveUp(&read_failure_, parsed);
  if (attachment != nullptr) {
    *attachment = channel_.AllocateBuffer(read.attachment.size());
    if (!read.attachment.empty()) {
      std::memcpy(attachment->data(), read.attachment.data(),
                  read.attachment.size());
    }
  }
  return true;
}

bool StreamCall::Write(const MessageLite& message,
                       absl::Span<const uint8_t> attachment) {
  if (!started_) return false;
  const uint64_t most = channel_.max_send_message_bytes();
  const absl::StatusOr<uint64_t> bytes = MeasureMessage(
      message, most < attachment.size() ? 0 : most - attachment.size(),
      "what this client's max_send_message_bytes leaves");
  if (!bytes.ok()) return GiveUp(&write_failure_, bytes.status());
  while (true) {
    switch (messages_.Write(*bytes, attachment, [&](uint8_t* out) {
      WriteMessage(message, *bytes, out);
    })) {
      case Result::kDone:
        return true;
      case Result::kOver:
        return false;
      case Result::kWait:
        Await(&writable_);
        break;
      case Result::kNoMemory:
        return GiveUp(&write_failure_,
                      absl::ResourceExhaustedError(
                          absl::StrCat("there is no memory for a message of ",
                                       *bytes, " bytes (see `ulimit -v`)")));
    }
  }
}

bool StreamCall::WritesDone() { return started_ && messages_.EndWrites(); }

absl::Status StreamCall::Finish() {
  if (started_ && !finished_) Await(&ended_);
  if (!std::exchange(finished_, true)) ReleaseContext();
  absl::Status status = TakeStatus();
  if (absl::IsCancelled(status)) {
    if (!write_failure_.ok()) return write_failure_;
    if (!read_failure_.ok()) return read_failure_;
  }
  return status;
}

void StreamCall::WriteRequest(uint8_t* out) {
  if (request_.metadata_bytes > 0) WriteMetadata(context_->metadata(), out);
}

void StreamCall::OnResponse(const transport::CallResponse& response) {
  if (TakeTrailer(response)) End();
}

void StreamCall::Report() {
  messages_.End();
  Notify(&ended_);
}

void StreamCall::PostStream() { channel_.Post(&messages_); }

void StreamCall::OnPending(bool pending) {
  if (stage != Stage::kEnded) calls().SetInBackground(this, pending);
}

void StreamCall::Await(Event* event) {
  Wait wait(this, event);
  channel_.Await(&wait, wait.waiter());
}

void StreamCall::Wait::Run() {
  if (std::exchange(event_->happened, false)) {
    call_->channel_.Finish(&waiter_);
  } else {
    event_->waiter = &waiter_;
  }
}

void StreamCall::Notify(Event* event) {
  Waiter* const waiter = std::exchange(event->waiter, nullptr);
  if (waiter == nullptr) {
    event->happened = true;
  } else {
    channel_.Finish(waiter);
  }
}

}  // namespace verbena::internal
