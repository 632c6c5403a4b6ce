#include "rpc/internal/unary_call.h"

#include <cstddef>
#include <new>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "rpc/internal/metadata_codec.h"
#include "rpc/internal/protobuf_codec.h"
#include "rpc/internal/status_text.h"
#include "transport/base/check.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {

using google::protobuf::MessageLite;

UnaryCall::UnaryCall(UnaryCallOwner* owner, const char* method_name,
                     uint64_t method_id, ClientContext* context,
                     const MessageLite* message, MessageLite* reply)
    : owner_(owner),
      method_name_(method_name),
      context_(context),
      message_(message),
      reply_(reply) {
  request_.method_id = method_id;
}

UnaryCall* UnaryCall::New(UnaryCallOwner* owner, const char* method_name,
                          uint64_t method_id, ClientContext* context,
                          const MessageLite* message, MessageLite* reply) {
  static_assert(sizeof(UnaryCall) <= ClientContext::kCallStorageBytes);
  static_assert(alignof(UnaryCall) <= alignof(std::max_align_t));
  const bool reserved = context->Reserve();
  void* const memory =
      reserved ? context->call_storage() : ::operator new(sizeof(UnaryCall));
  UnaryCall* const call = new (memory)
      UnaryCall(owner, method_name, method_id, context, message, reply);
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

absl::Status UnaryCall::ContextInUse() const {
  return Explain(absl::FailedPreconditionError(
      "the ClientContext is in use by another call"));
}

absl::Status UnaryCall::Prepare(uint64_t max_message_bytes) {
  if (ABSL_PREDICT_FALSE(!has_context_)) return ContextInUse();
  absl::Status status = Measure(max_message_bytes);
  if (ABSL_PREDICT_FALSE(!status.ok())) {
    context_->CloseUnopened();
    return Explain(status);
  }
  request_.deadline = context_->deadline();
  request_.attachment = context_->request_attachment();
  request_.attachment_buffer = context_->request_attachment_buffer();
  context_->Open(this);
  return status;
}

absl::Status UnaryCall::Measure(uint64_t max_message_bytes) {
  ASSIGN_OR_RETURN(request_.message_bytes,
                   MeasureMessage(*message_, max_message_bytes));
  if (!context_->metadata().empty()) {
    ASSIGN_OR_RETURN(request_.metadata_bytes,
                     MeasureMetadata(context_->metadata()));
  }
  return absl::OkStatus();
}

void UnaryCall::SetFailedBeforeStart(absl::Status status) {
  status_ = std::move(status);
  stage = Stage::kCompleted;
}

void UnaryCall::SetReplyHint(uint64_t bytes) {
  const uint64_t users_hint = context_->reply_size_hint();
  request_.reply_hint_bytes = users_hint > 0 ? users_hint : bytes;
}

void UnaryCall::WriteRequest(uint8_t* out) {
  if (request_.metadata_bytes > 0) {
    out = WriteMetadata(context_->metadata(), out);
  }
  WriteMessage(*message_, request_.message_bytes, out);
}

void UnaryCall::OnResponse(const transport::CallResponse& response) {
  owner_->LearnReplySize(request_.method_id, response.hint_bytes);
  End(ReadResponse(response));
}

absl::Status UnaryCall::ReadResponse(const transport::CallResponse& response) {
  if (ABSL_PREDICT_FALSE(!response.metadata.empty())) {
    const absl::Status status =
        ParseMetadata(response.metadata, context_->mutable_trailing_metadata());
    if (!status.ok()) return Explain(status);
  }
  if (ABSL_PREDICT_FALSE(response.code != absl::StatusCode::kOk)) {
    return ReadError(response);
  }
  if (ABSL_PREDICT_FALSE(response.attachment != nullptr)) {
    *context_->mutable_response_attachment() = std::move(*response.attachment);
  }
  const absl::Status status = ParseMessage(response.message, reply_);
  return ABSL_PREDICT_TRUE(status.ok()) ? status : Explain(status);
}

absl::Status UnaryCall::ReadError(const transport::CallResponse& response) {
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

void UnaryCall::OnFailed(const absl::Status& status) {
  Fail(owner_->ExplainFailure(status));
}

void UnaryCall::Fail(const absl::Status& status) { End(Explain(status)); }

absl::Status UnaryCall::Explain(const absl::Status& status) const {
  return Annotate(status, method_name_);
}

void UnaryCall::End(absl::Status status) {
  status_ = std::move(status);
  stage = Stage::kCompleted;
  context_->Close();
  // Nobody posts cancel_task_ any more. If it stands in a queue, it completes
  // the call when it comes out of there.
  if (ABSL_PREDICT_FALSE(cancel_posted_.load(std::memory_order_relaxed)) &&
      !cancel_ran_) {
    return;
  }
  owner_->CompleteCall(this);
}

void UnaryCall::Cancel() {
  if (cancel_posted_.exchange(true, std::memory_order_relaxed)) return;
  owner_->PostFromOutside(&cancel_task_);
}

void UnaryCall::RunCancel() {
  cancel_ran_ = true;
  if (stage == Stage::kCompleted) {
    owner_->CompleteCall(this);
  } else {
    owner_->CancelCall(this);
  }
}

}  // namespace verbena::internal
