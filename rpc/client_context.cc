#include "rpc/client_context.h"

#include "absl/strings/ascii.h"
#include "rpc/server_context.h"

namespace verbena {

std::unique_ptr<ClientContext> ClientContext::FromServerContext(
    ServerContext& server_context, const PropagationOptions& options) {
  auto context = std::make_unique<ClientContext>();
  // Kept beside the deadline of the call itself: the earlier one counts.
  if (options.deadline()) {
    context->state_.options().latest_due = server_context.call_->data().due;
  }
  if (options.cancellation()) {
    context->state_.CancelWith(server_context.stop_token());
  }
  return context;
}

void ClientContext::AddMetadata(absl::string_view key,
                                absl::string_view value) {
  state_.options().metadata.emplace(absl::AsciiStrToLower(key), value);
}

const std::string& ClientContext::peer() const {
  static const std::string* const none = new std::string;
  return state_.results().has_peer ? state_.results().peer : *none;
}

}  // namespace verbena
