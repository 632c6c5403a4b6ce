// The part of OpenCall that a service config changes.

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "rpc/internal/client/open_call.h"
#include "rpc/internal/client/open_calls.h"
#include "rpc/internal/client/pushback.h"
#include "rpc/internal/codec/metadata_codec.h"
#include "rpc/internal/codec/method_name.h"
#include "transport/streams/message_stream.h"

namespace verbena::internal {

// Only narrows what the user has said.
bool OpenCall::Configure(const std::shared_ptr<const ServiceConfig>& config,
                         const MethodConfig& by, absl::Time now) {
  if (by.timeout.has_value()) {
    request_.deadline = std::min(request_.deadline, now + *by.timeout);
  }
  waits_by_config_ = by.wait_for_ready.value_or(false);
  max_response_bytes_ = by.max_response_bytes.value_or(UINT64_MAX);
  if (by.retry.has_value()) {
    retry = std::make_unique<RetryState>(config, &*by.retry);
  }
  if (streams_) return ConfigureStream(by);
  if (by.hedging.has_value() && hedge_owner() != nullptr) {
    hedge = std::make_unique<Hedge>(hedge_owner(), config, &*by.hedging);
  }
  return CheckRequest(request_.message_bytes, by);
}

// The user may have written messages already: nothing of them is sent yet.
bool OpenCall::ConfigureStream(const MethodConfig& by) {
  transport::MessageStream& messages = *stream();
  if (retry != nullptr) messages.AllowRestart(calls_->retry_buffer_bytes());
  if (by.max_response_bytes.has_value()) {
    messages.LimitReads(*by.max_response_bytes,
                        "maxResponseMessageBytes of the service config");
  }
  return !by.max_request_bytes.has_value() ||
         CheckRequest(messages.LimitWrites(*by.max_request_bytes), by);
}

bool OpenCall::CheckRequest(uint64_t bytes, const MethodConfig& by) {
  if (bytes <= by.max_request_bytes.value_or(UINT64_MAX)) return true;
  Fail(absl::ResourceExhaustedError(absl::StrCat(
      "the request has ", bytes,
      " bytes, more than maxRequestMessageBytes of the service config, ",
      *by.max_request_bytes)));
  return false;
}

bool OpenCall::RefuseResponse(uint64_t bytes) {
  Fail(absl::ResourceExhaustedError(absl::StrCat(
      "the response has ", bytes,
      " bytes, more than maxResponseMessageBytes of the service config, ",
      max_response_bytes_)));
  return false;
}

// Forgets what the last attempt has brought, and tells the server of it.
bool OpenCall::BeginRetry() {
  refused_ = false;
  state().results().initial_metadata.clear();
  state().results().trailing_metadata.clear();
  Metadata& metadata = state().options().metadata;
  metadata.erase(kPreviousAttemptsKey);
  metadata.emplace(kPreviousAttemptsKey, absl::StrCat(retry->attempts - 1));
  const absl::StatusOr<uint32_t> bytes = MeasureMetadata(metadata);
  if (!bytes.ok()) {
    Fail(bytes.status());
    return false;
  }
  PlaceHead(*bytes + (sends_name_ ? MethodNameBytes(method_name_) : 0));
  return true;
}

// The context may be used for other calls, which have no attempts behind them.
void OpenCall::EndRetries() {
  calls_->RemoveWake(this);
  if (retry->attempts > 1) {
    state().options().metadata.erase(kPreviousAttemptsKey);
  }
  if (status_.ok()) calls_->NoteRetriableSuccess();
}

}  // namespace verbena::internal
