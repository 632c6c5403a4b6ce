#include "rpc/server_context.h"

#include <cstring>
#include <functional>
#include <memory>
#include <stop_token>

#include "rpc/client_context.h"
#include "rpc/credentials.h"
#include "rpc/internal/server/handler_call.h"

namespace verbena {

void ServerContext::SendInitialMetadata() { call_->SendInitialMetadataNow(); }

bool ServerContext::IsCancelled() const { return call_->IsCancelled(); }

std::stop_token ServerContext::stop_token() { return call_->stop_token(); }

ServerUnaryReactor* ServerContext::DefaultReactor() {
  return call_->DefaultReactor();
}

const std::string& ServerContext::method() const {
  return call_->method_name();
}

const std::string& ServerContext::peer() const { return call_->peer(); }

std::shared_ptr<const AuthContext> ServerContext::auth_context() const {
  return call_->auth_context();
}

const std::string& ServerContext::device() const { return call_->device(); }

Buffer ServerContext::AllocateBuffer(size_t bytes) const {
  return call_->AllocateBuffer(bytes);
}

void ServerContext::set_response_attachment(
    absl::Span<const uint8_t> attachment) {
  response_attachment_ = AllocateBuffer(attachment.size());
  if (attachment.empty()) return;
  std::memcpy(response_attachment_.data(), attachment.data(),
              attachment.size());
}

std::unique_ptr<ClientContext> ClientContext::FromServerContext(
    ServerContext& server_context, const PropagationOptions& options) {
  auto context = std::make_unique<ClientContext>();
  if (options.deadline()) context->latest_due_ = server_context.due();
  if (options.cancellation()) {
    context->stop_callback_ =
        std::make_unique<std::stop_callback<std::function<void()>>>(
            server_context.stop_token(),
            [raw = context.get()] { raw->TryCancel(); });
  }
  return context;
}

}  // namespace verbena
