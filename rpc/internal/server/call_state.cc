#include "rpc/internal/server/call_state.h"

#include "absl/base/optimization.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "rpc/internal/codec/metadata_codec.h"
#include "rpc/internal/codec/method_name.h"
#include "rpc/internal/codec/status_text.h"
#include "transport/base/clock.h"
#include "transport/base/status_macros.h"
#include "transport/polling/poller.h"
#include "transport/polling/posted_function.h"

namespace verbena::internal {

// Parses the metadata, and takes the method's name out, so that handlers do not
// see it.
absl::Status CallState::TakeMetadata() {
  generic_name_.clear();
  Metadata* const metadata = &data().client_metadata;
  const absl::Status parsed = ParseMetadata(call_->metadata(), metadata);
  // Whether it could be parsed or not: the parsed pairs are copies.
  call_->ReleaseMetadata();
  RETURN_IF_ERROR(parsed);
  absl::StatusOr<std::string> name =
      TakeMethodName(call_->method_id(), metadata);
  // The name is optional for a registered method, whose number says enough.
  if (!registered_.is_generic()) {
    return absl::IsNotFound(name.status()) ? absl::OkStatus() : name.status();
  }
  if (absl::IsNotFound(name.status())) {
    return absl::UnimplementedError(UnknownMethodText(call_->method_id()));
  }
  ASSIGN_OR_RETURN(generic_name_, std::move(name));
  return absl::OkStatus();
}

// Asks the cheapest source first, and the clock only if there is a deadline.
bool CallState::IsCancelled() const {
  if (call_ == nullptr) return at_end_.cancelled;
  if (call_->cancelled()) return true;
  if (stream_ != nullptr && stream_->failed()) return true;
  if (call_->deadline() == absl::InfiniteFuture()) return false;
  // Never before the client's own clock says so: the deadline came from one
  // that may be that late.
  const absl::Time expiry = call_->deadline() + transport::Poller::kNowAgeMax;
  if (base::Now() < expiry) return false;
  // Relaxed: the flag publishes nothing but itself.
  told_expired_.store(true, std::memory_order_relaxed);
  return true;
}

absl::Status CallState::CancelledStatus() const {
  if (told_expired_.load(std::memory_order_relaxed)) {
    return absl::DeadlineExceededError(
        absl::StrCat(method(), ": the deadline of the call has passed"));
  }
  // Nobody hears this: the call has ended at the client.
  return absl::CancelledError("cancelled before the handler ran");
}

// Metadata that the handler has set but not sent go now, before the status.
absl::Status CallState::FinishInitialMetadata() {
  const bool due =
      !data().initial_metadata.empty() && data().TakeInitialMetadata();
  initial_metadata_.Finish(*call_, due ? &data().initial_metadata : nullptr);
  return initial_metadata_.failure();
}

void CallState::Keep() {
  // Asked now: afterwards there is no call to ask.
  at_end_.cancelled = IsCancelled();
  at_end_.peer = call_->peer();
  at_end_.device = call_->device_name();
  at_end_.auth_context = call_->auth_context();
}

std::shared_ptr<const AuthContext> CallState::auth_context() const {
  // A processor has made a copy of its own for this call.
  if (auth_context_ != nullptr) return auth_context_;
  const std::shared_ptr<const AuthContext> of_connection =
      call_ == nullptr ? at_end_.auth_context : call_->auth_context();
  // Never null, so that a handler need not look.
  return of_connection == nullptr ? std::make_shared<AuthContext>()
                                  : of_connection;
}

// Checks against the client's limit before anything is sent, so that the call
// can still end with an error.
std::optional<std::string> InitialMetadata::Text(transport::ServerCall& call,
                                                 const Metadata& metadata) {
  const absl::StatusOr<uint32_t> bytes = MeasureMetadata(metadata);
  failure_ =
      bytes.ok() ? call.CheckMetadata("initial", *bytes) : bytes.status();
  if (!failure_.ok()) return std::nullopt;
  return MetadataText(metadata, *bytes);
}

void InitialMetadata::Post(transport::ServerCall& call,
                           const Metadata& metadata) {
  std::optional<std::string> text = Text(call, metadata);
  if (!text.has_value()) return;
  // Messages that are written meanwhile must not overtake the metadata.
  if (call.stream() != nullptr) call.stream()->HoldWrites();
  // Shared with the task, which may run after the call has ended.
  posted_ = std::make_shared<Posted>();
  posted_->call = &call;
  posted_->text = *std::move(text);
  transport::PostFunction(call.poller(),
                          [posted = posted_] { posted->Send(); });
}

void InitialMetadata::Finish(transport::ServerCall& call,
                             const Metadata* metadata) {
  // Sent here, not by the task: they go before the RESPONSE, which comes next.
  // The task finds nothing left.
  if (posted_ != nullptr) {
    posted_->Send();
    posted_.reset();
  }
  if (metadata == nullptr) return;
  std::optional<std::string> text = Text(call, *metadata);
  if (text.has_value()) call.SendInitialMetadata(*std::move(text));
}

}  // namespace verbena::internal
