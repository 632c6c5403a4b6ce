#include "rpc/internal/server/handler_guard.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "rpc/credentials.h"
#include "rpc/metadata.h"
#include "rpc/server_context.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {

// Turns exceptions into a status: the worker or poller that runs the handler
// must survive it.
absl::Status HandlerGuard::Run(absl::FunctionRef<absl::Status()> handler) {
  try {
    if (ABSL_PREDICT_FALSE(gate_ != nullptr)) RETURN_IF_ERROR(Admit());
    return handler();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(
        state_.method(),
        ": the handler ran out of memory (see `ulimit -v` of the server)"));
  } catch (...) {
    // The exception's text is not for clients.
    return absl::UnknownError(
        absl::StrCat(state_.method(), ": the handler threw an exception"));
  }
}

// Once a call: a reactor's stream comes here when its request is read, and
// again when its method starts.
absl::Status HandlerGuard::Admit() {
  if (std::exchange(admitted_, true)) return absl::OkStatus();
  if (gate_->processor != nullptr) RETURN_IF_ERROR(ProcessAuthMetadata());
  // After the processor, which may have found out who calls. Before the
  // interceptors, which see only calls that may go on.
  if (gate_->authorization != nullptr) {
    const ServerContext context(&state_);
    RETURN_IF_ERROR(gate_->authorization->Authorize(context));
  }
  return gate_->interceptors.empty() ? absl::OkStatus() : StartInterception();
}

// Gives the processor a copy of the identity, because calls of one connection
// share the original. Then removes what it has consumed and adds its response.
absl::Status HandlerGuard::ProcessAuthMetadata() {
  const auto& of_connection = state_.call()->auth_context();
  const auto auth_context = of_connection == nullptr
                                ? std::make_shared<AuthContext>()
                                : std::make_shared<AuthContext>(*of_connection);
  state_.set_auth_context(auth_context);
  Metadata& metadata = state_.data().client_metadata;
  Metadata consumed;
  Metadata response;
  RETURN_IF_ERROR(gate_->processor->Process(metadata, auth_context.get(),
                                            &consumed, &response));
  for (const auto& pair : consumed) {
    // Only that pair: others with the same key are for the handler.
    const auto [begin, end] = metadata.equal_range(pair.first);
    const auto found = std::find(begin, end, pair);
    if (found != end) metadata.erase(found);
  }
  for (const auto& [key, value] : response) {
    state_.data().initial_metadata.emplace(absl::AsciiStrToLower(key), value);
  }
  return absl::OkStatus();
}

absl::Status HandlerGuard::StartInterception() {
  interception_ = ServerInterception::New(gate_->interceptors, state_.method(),
                                          method_.type(), &state_);
  // No factory wanted this call.
  if (interception_ == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(interception_->Start());
  if (state_.stream() != nullptr) {
    // The messages of a stream come one by one. A unary request is there
    // already.
    state_.stream()->set_hooks(interception_.get());
  } else {
    interception_->OnReceiveMessage(messages_.request());
  }
  return absl::OkStatus();
}

void HandlerGuard::EndUnary(absl::Status* status) {
  // After an error no response is sent.
  if (status->ok()) interception_->OnSendMessage(*messages_.response());
  End(status);
}

}  // namespace verbena::internal
