#include "rpc/internal/client/unary_call.h"

#include <cstddef>
#include <new>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "rpc/internal/client/open_calls.h"
#include "rpc/internal/codec/metadata_codec.h"
#include "rpc/internal/codec/protobuf_codec.h"
#include "rpc/internal/codec/status_text.h"

namespace verbena::internal {

using google::protobuf::MessageLite;

UnaryCall* UnaryCall::New(OpenCalls* calls, const char* method_name,
                          uint64_t method_id, ClientContext* context,
                          const MessageLite* message, MessageLite* reply) {
  static_assert(sizeof(UnaryCall) <= ClientContext::kCallStorageBytes);
  static_assert(alignof(UnaryCall) <= alignof(std::max_align_t));
  const bool reserved = context->Reserve();
  void* const memory =
      reserved ? context->call_storage() : ::operator new(sizeof(UnaryCall));
  UnaryCall* const call = new (memory)
      UnaryCall(calls, method_name, method_id, context, message, reply);
  call->has_context_ = reserved;
  return call;
}

void UnaryCall::Destroy() {
  ClientContext* const context = has_context_ ? context_ : nullptr;
  this->~UnaryCall();
  if (context != nullptr) {
    context->Release();
  } else {
    ::operator delete(this);
  }
}

bool UnaryCall::Prepare(uint64_t max_message_bytes) {
  if (__builtin_expect(!has_context_, 0)) return ContextInUse();
  const absl::StatusOr<uint64_t> bytes = MeasureMessage(
      *message_, max_message_bytes, "this client's max_send_message_bytes");
  if (__builtin_expect(!bytes.ok(), 0)) return NotOpened(bytes.status());
  request_.message_bytes = *bytes;
  if (__builtin_expect(!context_->metadata().empty(), 0)) {
    const absl::StatusOr<uint32_t> metadata_bytes =
        MeasureMetadata(context_->metadata());
    if (!metadata_bytes.ok()) return NotOpened(metadata_bytes.status());
    request_.metadata_bytes = *metadata_bytes;
  }
  request_.deadline = context_->due();
  request_.attachment = context_->request_attachment();
  request_.attachment_buffer = context_->request_attachment_buffer();
  context_->Open(this);
  return true;
}

bool UnaryCall::ContextInUse() {
  status_ = Explain(absl::FailedPreconditionError(
      "the ClientContext is in use by another call"));
  stage = Stage::kRefused;
  return false;
}

bool UnaryCall::NotOpened(const absl::Status& status) {
  context_->CloseUnopened();
  status_ = Explain(status);
  stage = Stage::kRefused;
  return false;
}

void UnaryCall::Run() { calls_->RunPosted(this); }

void UnaryCall::RunErrand() {
  OpenCalls* const calls = calls_;
  {
    absl::AnyInvocable<void(absl::Status)> done = *std::move(on_done);
    absl::Status status = TakeStatus();
    // The callback may use the context for another call.
    Destroy();
    done(std::move(status));
    // What it has captured is destroyed before anybody hears that it returned.
  }
  calls->CallbackReturned();
}

void UnaryCall::WriteRequest(uint8_t* out) {
  if (__builtin_expect(request_.metadata_bytes > 0, 0)) {
    out = WriteMetadata(context_->metadata(), out);
  }
  WriteMessage(*message_, request_.message_bytes, out);
}

void UnaryCall::OnResponse(const transport::CallResponse& response) {
  // Servers that always do so would be asked for ever.
  if (__builtin_expect(response.unprocessed, 0) &&
      !std::exchange(refused_, true)) {
    return calls_->TryAgain(this);
  }
  calls_->LearnReplySize(request_.method_id, response.hint_bytes);
  if (__builtin_expect(!response.metadata.empty(), 0)) {
    const absl::Status parsed =
        ParseMetadata(response.metadata, context_->mutable_trailing_metadata());
    if (!parsed.ok()) return EndWith(Explain(parsed));
  }
  if (__builtin_expect(response.code != absl::StatusCode::kOk, 0)) {
    return EndWith(ReadError(response));
  }
  if (__builtin_expect(response.attachment != nullptr, 0)) {
    *context_->mutable_response_attachment() = std::move(*response.attachment);
  }
  const absl::Status parsed = ParseMessage(response.message, reply_);
  if (__builtin_expect(!parsed.ok(), 0)) return EndWith(Explain(parsed));
  End();
}

absl::Status UnaryCall::ReadError(
    const transport::CallResponse& response) const {
  const absl::string_view text(
      reinterpret_cast<const char*>(response.status_message.data()),
      response.status_message.size());
  const absl::StatusCode code = KnownCode(response.code);
  if (code == absl::StatusCode::kUnimplemented &&
      text == UnknownMethodText(request_.method_id)) {
    return absl::UnimplementedError(
        absl::StrCat(method_name_, ": the server at ", context_->peer(),
                     " has no such service or method"));
  }
  return absl::Status(code, text);
}

void UnaryCall::OnUnsent(const absl::Status& /*why*/) {
  calls_->TryAgain(this);
}

void UnaryCall::OnFailed(const absl::Status& status) {
  Fail(calls_->Explain(status));
}

void UnaryCall::Fail(const absl::Status& status) { EndWith(Explain(status)); }

absl::Status UnaryCall::Explain(const absl::Status& status) const {
  return Annotate(status, method_name_);
}

void UnaryCall::EndWith(absl::Status status) {
  status_ = std::move(status);
  End();
}

void UnaryCall::End() {
  stage = Stage::kEnded;
  context_->Close();
  // Nobody posts cancel_task_ any more. If it stands in a queue, it completes
  // the call when it comes out of there.
  if (__builtin_expect(cancel_posted_.load(std::memory_order_relaxed), 0) &&
      !cancel_ran_) {
    return;
  }
  calls_->Complete(this);
}

void UnaryCall::Cancel() {
  if (cancel_posted_.exchange(true, std::memory_order_relaxed)) return;
  calls_->PostFromOutside(&cancel_task_);
}

void UnaryCall::RunCancel() {
  cancel_ran_ = true;
  if (stage == Stage::kEnded) {
    calls_->Complete(this);
  } else {
    calls_->Cancel(this);
  }
}

}  // namespace verbena::internal
