#include "rpc/internal/client/unary_call.h"

#include <cstddef>
#include <new>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/statusor.h"
#include "rpc/internal/client/open_calls.h"
#include "rpc/internal/codec/protobuf_codec.h"

namespace verbena::internal {

using google::protobuf::MessageLite;

// Puts the call into the memory of its context, so that none is allocated.
// Another call may have that memory: then this one, which will fail, lies on
// the heap.
UnaryCall* UnaryCall::New(OpenCalls* calls, const char* method_name,
                          uint64_t method_id, ClientContext* context,
                          const MessageLite* message, MessageLite* reply) {
  static_assert(sizeof(UnaryCall) <= ClientCallState::kStorageBytes);
  static_assert(alignof(UnaryCall) <= alignof(std::max_align_t));
  ClientCallState& state = ClientCallState::Of(*context);
  const bool reserved = state.Reserve();
  void* const memory =
      reserved ? state.storage() : ::operator new(sizeof(UnaryCall));
  UnaryCall* const call = new (memory) UnaryCall(
      calls, method_name, method_id, context, reserved, message, reply);
  call->in_background = true;
  return call;
}

void UnaryCall::Destroy() {
  // Read before the destructor, after which has_context() is gone.
  ClientCallState* const state = has_context() ? &this->state() : nullptr;
  this->~UnaryCall();
  if (state != nullptr) {
    state->Release();
  } else {
    ::operator delete(this);
  }
}

// Checks the context, calls the interceptors, measures the message, and opens
// the context. Interceptors come before OpenContext(), which measures the
// metadata that they may have added.
bool UnaryCall::Prepare(uint64_t max_message_bytes) {
  if (ABSL_PREDICT_FALSE(!has_context())) return ContextInUse();
  if (ABSL_PREDICT_FALSE(calls().interceptors() != nullptr) &&
      !TellInterceptorsOfStart()) {
    return false;
  }
  const absl::StatusOr<uint64_t> bytes = MeasureMessage(
      *message_, max_message_bytes, "this client's max_send_message_bytes");
  if (ABSL_PREDICT_FALSE(!bytes.ok())) return NotOpened(bytes.status());
  request_.message_bytes = *bytes;
  const ClientCallOptions& options = state().options();
  request_.attachment = options.request_attachment_bytes;
  request_.attachment_buffer = options.request_attachment.empty()
                                   ? nullptr
                                   : &options.request_attachment;
  return OpenContext();
}

bool UnaryCall::TellInterceptorsOfStart() {
  if (!StartInterception(RpcType::kUnary)) return false;
  if (interception() != nullptr) interception()->OnSendMessage(*message_);
  return true;
}

void UnaryCall::TellInterceptorsOfEnd() {
  absl::Status status = TakeStatus();
  if (status.ok()) interception()->OnReceiveMessage(reply_);
  interception()->End(&status);
  KeepStatus(std::move(status));
}

void UnaryCall::CallBack() {
  // Moved out first, because Destroy() ends the object that holds them.
  absl::AnyInvocable<void(absl::Status)> done = *std::move(on_done);
  absl::Status status = TakeStatus();
  // The callback may use the context for another call.
  Destroy();
  done(std::move(status));
}

void UnaryCall::Run() {
  // The owner of the poller runs it to start it, the background thread to
  // report it.
  if (stage != Stage::kReported) return OpenCall::Run();
  // Kept here: CallBack() destroys *this.
  OpenCalls& open_calls = calls();
  EndInterception();
  CallBack();
  // CallBack() has destroyed all that the callback captured.
  open_calls.CallbackReturned();
}

// The callback runs in the round only if the server has answered. Nobody
// expects one where the transport ends many calls at once, or where a call ends
// while it is being started.
void UnaryCall::Report() {
  if (answered_ && interception() == nullptr &&
      calls().ReportInRound([this] { CallBack(); })) {
    return;
  }
  calls().ReportInBackground(this);
}

void UnaryCall::WriteRequest(uint8_t* out) {
  WriteMessage(*message_, request_.message_bytes, WriteHead(out));
}

// Sees to the rare cases, parses the message, and ends the call. Each rare case
// costs a small OK reply one branch.
void UnaryCall::OnResponse(const transport::CallResponse& response) {
  attempt.EndWith(response);
  if (ABSL_PREDICT_FALSE(hedge != nullptr)) {
    if (!hedge->OnFirstResponse()) return;
    if (response.unprocessed && hedge->MayResend()) {
      return OnUnsent(absl::UnavailableError("the server is shutting down"));
    }
  } else if (ABSL_PREDICT_FALSE(response.unprocessed) && MayTryAgain()) {
    return calls().TryAgain(this);
  }
  TakeResponse(response);
}

void UnaryCall::TakeResponse(const transport::CallResponse& response) {
  answered_ = true;
  calls().LearnReplySize(request_.method_id, response.hint_bytes);
  counters()->NoteResponse(response.message.size());
  // The call has ended with the server's error, or is tried again.
  if (!TakeTrailer(response)) return;
  if (!CheckResponse(response.message.size())) return;
  if (ABSL_PREDICT_FALSE(response.attachment != nullptr)) {
    counters()->NoteResponse(response.attachment->size());
    // Before End(): the caller may look as soon as the call has ended.
    state().results().response_attachment = std::move(*response.attachment);
  }
  const absl::Status parsed = ParseMessage(response.message, reply_);
  if (ABSL_PREDICT_FALSE(!parsed.ok())) return Fail(parsed);
  End();
}

}  // namespace verbena::internal
