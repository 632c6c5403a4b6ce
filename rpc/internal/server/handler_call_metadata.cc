// The metadata of a HandlerCall, both ways.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "rpc/internal/codec/long_status.h"
#include "rpc/internal/codec/metadata_codec.h"
#include "rpc/internal/codec/method_name.h"
#include "rpc/internal/codec/status_text.h"
#include "rpc/internal/server/handler_call.h"
#include "rpc/status_details.h"
#include "transport/base/limits.h"
#include "transport/base/status_macros.h"
#include "transport/polling/poller.h"
#include "transport/polling/posted_function.h"

namespace verbena::internal {

absl::Status HandlerCall::TakeMetadata() {
  generic_name_.clear();
  Metadata* const metadata = &data().client_metadata;
  const absl::Status parsed = ParseMetadata(call_->metadata(), metadata);
  call_->ReleaseMetadata();
  RETURN_IF_ERROR(parsed);
  absl::StatusOr<std::string> name =
      TakeMethodName(call_->method_id(), metadata);
  // The name is optional for a registered method, whose number says enough.
  if (!method_->is_generic()) {
    return absl::IsNotFound(name.status()) ? absl::OkStatus() : name.status();
  }
  if (absl::IsNotFound(name.status())) {
    return absl::UnimplementedError(UnknownMethodText(call_->method_id()));
  }
  ASSIGN_OR_RETURN(generic_name_, std::move(name));
  return absl::OkStatus();
}

std::optional<std::string> HandlerCall::InitialText() const {
  const Metadata& metadata = data().initial_metadata;
  const absl::StatusOr<uint32_t> bytes = MeasureMetadata(metadata);
  initial_failure_ =
      bytes.ok() ? call_->CheckMetadata("initial", *bytes) : bytes.status();
  if (!initial_failure_.ok()) return std::nullopt;
  return MetadataText(metadata, *bytes);
}

void HandlerCall::PostInitialMetadata() const {
  std::optional<std::string> text = InitialText();
  if (!text.has_value()) return;
  if (streams_) call_->stream()->HoldWrites();
  unsent_initial_ = std::make_shared<UnsentInitial>();
  unsent_initial_->call = call_;
  unsent_initial_->text = *std::move(text);
  transport::PostFunction(call_->poller(),
                          [unsent = unsent_initial_] { unsent->Send(); });
}

void HandlerCall::PlaceMetadata() {
  const Metadata& trailing = data().trailing_metadata;
  if (!data().sends_no_metadata()) PlaceInitialMetadata();
  if (!trailing.empty() && trailing.find(kStatusRestKey) != trailing.end()) {
    reply_.status = absl::InternalError(absl::StrCat(
        method(), ": the handler added trailing metadata with the key \"",
        kStatusRestKey, "\"; keys that begin with a colon are the library's"));
    return;
  }
  if (!reply_.status.ok()) PlaceStatus();
  if (!trailing.empty()) PlaceTrailingMetadata();
}

void HandlerCall::PlaceInitialMetadata() {
  if (unsent_initial_ != nullptr) {
    unsent_initial_->Send();
    unsent_initial_.reset();
  }
  if (!data().initial_metadata.empty() && data().TakeInitialMetadata()) {
    auto text = InitialText();
    if (text.has_value()) call_->SendInitialMetadata(*std::move(text));
  }
  if (!initial_failure_.ok()) {
    reply_.status = Annotate(initial_failure_, method());
  }
}

void HandlerCall::PlaceTrailingMetadata() {
  const Metadata& trailing = data().trailing_metadata;
  const absl::StatusOr<uint32_t> bytes = MeasureMetadata(trailing);
  const absl::Status failure =
      bytes.ok() ? call_->CheckMetadata("trailing", *bytes) : bytes.status();
  if (!failure.ok()) {
    reply_.status = Annotate(failure, method());
  } else if (*bytes <= transport::kFrameMetadataBytes) {
    reply_.metadata_bytes = *bytes;
  } else {
    reply_.long_metadata = MetadataText(trailing, *bytes);
  }
}

void HandlerCall::PlaceStatus() {
  if (reply_.status.message().size() > max_status_bytes_) {
    reply_.status = CutMessage(reply_.status, max_status_bytes_);
  }
  AddStatusDetails();
  if (reply_.status.message().size() > transport::kMaxStatusMessageBytes &&
      !DetailsHaveMessage()) {
    AddStatusRest();
  }
}

bool HandlerCall::DetailsHaveMessage() const {
  const Metadata& trailing = data().trailing_metadata;
  const auto details = trailing.find(kStatusDetailsKey);
  absl::Status status;
  return details != trailing.end() &&
         FromGoogleRpcStatus(details->second, &status).ok() &&
         status.message() == reply_.status.message();
}

void HandlerCall::AddStatusRest() {
  constexpr size_t kHead = transport::kMaxStatusMessageBytes;
  const absl::StatusOr<uint32_t> bytes =
      MeasureMetadata(data().trailing_metadata);
  const size_t most = call_->client_max_metadata_bytes();
  const size_t others =
      (bytes.ok() ? *bytes : most) + PairBytes(kStatusRestKey, "");
  const absl::string_view sent = CutText(
      reply_.status.message(), kHead + (others < most ? most - others : 0));
  if (sent.size() > kHead) {
    data().trailing_metadata.emplace(kStatusRestKey, sent.substr(kHead));
  } else {
    reply_.status = CutMessage(reply_.status, kHead);
  }
}

void HandlerCall::AddStatusDetails() {
  if (!HasStatusDetails(reply_.status)) return;
  const Metadata& trailing = data().trailing_metadata;
  if (trailing.find(kStatusDetailsKey) != trailing.end()) return;
  const std::string details = ToGoogleRpcStatus(reply_.status);
  const absl::StatusOr<uint32_t> bytes = MeasureMetadata(trailing);
  if (!bytes.ok()) return;
  const size_t sum = *bytes + PairBytes(kStatusDetailsKey, details);
  if (sum > transport::kMaxMetadataBytes ||
      !call_->CheckMetadata("trailing", sum).ok()) {
    return;  // The status itself still arrives.
  }
  data().trailing_metadata.emplace(kStatusDetailsKey, details);
}

absl::Status HandlerCall::ProcessAuthMetadata() {
  auth_context_ = call_->auth_context() == nullptr
                      ? std::make_shared<AuthContext>()
                      : std::make_shared<AuthContext>(*call_->auth_context());
  Metadata* const metadata = &data().client_metadata;
  Metadata consumed;
  Metadata response;
  RETURN_IF_ERROR(gate_->processor->Process(*metadata, auth_context_.get(),
                                            &consumed, &response));
  for (const auto& pair : consumed) {
    const auto [begin, end] = metadata->equal_range(pair.first);
    const auto found = std::find(begin, end, pair);
    if (found != end) metadata->erase(found);
  }
  for (const auto& [key, value] : response) {
    data().initial_metadata.emplace(absl::AsciiStrToLower(key), value);
  }
  return absl::OkStatus();
}

}  // namespace verbena::internal
