// The part of HandlerCall that asks the gate and tells the interceptors.

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "rpc/internal/server/handler_call.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {

absl::Status HandlerCall::Admit() {
  if (std::exchange(admitted_, true)) return absl::OkStatus();
  if (gate_->processor != nullptr) RETURN_IF_ERROR(ProcessAuthMetadata());
  return gate_->interceptors.empty() ? absl::OkStatus() : StartInterception();
}

absl::Status HandlerCall::StartInterception() {
  interception_ = ServerInterception::New(gate_->interceptors, method(),
                                          method_->type(), this);
  if (interception_ == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(interception_->Start());
  if (!streams_) {
    interception_->OnReceiveMessage(request_);
  } else if (reactors_ != nullptr) {
    reactors_->set_hooks(interception_.get());
  } else {
    stream_->set_hooks(interception_.get());
  }
  return absl::OkStatus();
}

bool HandlerCall::TakeInterceptedReply() {
  const bool was_good = reply_.status.ok();
  if (was_good) interception_->OnSendMessage(*response_);
  interception_->End(&reply_.status);
  interception_.reset();
  if (!reply_.status.ok()) return false;
  // Finish() drops what was measured where an error took its place.
  return was_good || MeasureReply();
}

}  // namespace verbena::internal
