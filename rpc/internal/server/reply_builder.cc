#include "rpc/internal/server/reply_builder.h"

#include <string>

#include "absl/base/optimization.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "rpc/internal/codec/long_status.h"
#include "rpc/internal/codec/metadata_codec.h"
#include "rpc/internal/codec/protobuf_codec.h"
#include "rpc/internal/codec/status_text.h"
#include "rpc/status_details.h"
#include "transport/base/limits.h"

namespace verbena::internal {

// Measures the message. The length is needed first, because it decides how the
// reply travels.
bool ReplyBuilder::TakeMessage() {
  absl::StatusOr<uint64_t> bytes =
      MeasureMessage(*messages_.response(), limits_.message_bytes,
                     "the server's limit (SetMaxSendMessageSize)");
  if (ABSL_PREDICT_FALSE(!bytes.ok())) {
    messages_.NoteUnknown();
    // A reply without its required fields is the server's fault, not the
    // caller's.
    const absl::StatusCode code = absl::IsInvalidArgument(bytes.status())
                                      ? absl::StatusCode::kInternal
                                      : bytes.status().code();
    reply_.status = absl::Status(code, absl::StrCat(state_.method(), ": reply ",
                                                    bytes.status().message()));
    return false;
  }
  reply_.message_bytes = *bytes;
  reply_.attachment = std::move(state_.data().response_attachment);
  messages_.NoteBytes(*bytes);
  return true;
}

// Serialises a large reply on the handler's thread, so that the poller does not
// have to.
void ReplyBuilder::WriteAhead() {
  // With trailing metadata the sum is not known yet; such replies are rare, and
  // large ones with them rarer: the poller writes them.
  if (!state_.data().sends_no_metadata()) return;
  if (!reply_.attachment.empty()) return;  // See AllocateReply().
  if (reply_.message_bytes <= transport::kFrameReplyBytes) return;
  auto buffer = state_.call()->AllocateReply(reply_.message_bytes);
  // Without it Complete() waits for memory, or says what is wrong.
  if (!buffer.ok()) return;
  WriteMessage(*messages_.response(), reply_.message_bytes, buffer->data());
  reply_.buffer = *std::move(buffer);
}

// Gives up at the first thing that a small reply has not. Complete() then takes
// the long way.
bool ReplyBuilder::WritePlain() {
  if (!reply_.status.ok() || state_.call()->stream() != nullptr ||
      !reply_.attachment.empty() || !reply_.buffer.empty() ||
      !state_.data().sends_no_metadata()) {
    return false;
  }
  uint8_t* const out = state_.call()->BeginReply(reply_.message_bytes);
  if (out == nullptr) return false;
  WriteMessage(*messages_.response(), reply_.message_bytes, out);
  return true;
}

// Places the metadata, drops what an error does not carry, and asks the
// transport whether the rest fits. The answer to that is the status if it does
// not.
void ReplyBuilder::Complete() {
  PlaceMetadata();
  if (!reply_.status.ok()) {
    reply_.message_bytes = 0;
    reply_.attachment.Reset();
  }
  const absl::Status too_long = state_.call()->CheckReply(reply_);
  if (ABSL_PREDICT_TRUE(too_long.ok())) return;
  reply_.status = Annotate(too_long, state_.method());
  reply_.message_bytes = 0;
  reply_.buffer.Reset();
  reply_.attachment.Reset();
}

// Sends initial metadata, then fills the trailing ones: the parts of an error
// first, since they count for the length.
void ReplyBuilder::PlaceMetadata() {
  if (!state_.data().sends_no_metadata()) {
    const absl::Status failure = state_.FinishInitialMetadata();
    if (!failure.ok()) reply_.status = Annotate(failure, state_.method());
  }
  if (!trailing().empty() &&
      trailing().find(kStatusRestKey) != trailing().end()) {
    reply_.status = absl::InternalError(absl::StrCat(
        state_.method(),
        ": the handler added trailing metadata with the key \"", kStatusRestKey,
        "\"; keys that begin with a colon are the library's"));
    return;
  }
  if (!reply_.status.ok()) PlaceStatus();
  if (!trailing().empty()) PlaceTrailingMetadata();
}

// Chooses the frame or frames of their own, by the length. WriteTo() writes the
// short ones before the message.
void ReplyBuilder::PlaceTrailingMetadata() {
  const absl::StatusOr<uint32_t> bytes = MeasureMetadata(trailing());
  const absl::Status failure =
      bytes.ok() ? state_.call()->CheckMetadata("trailing", *bytes)
                 : bytes.status();
  if (!failure.ok()) {
    reply_.status = Annotate(failure, state_.method());
  } else if (*bytes <= transport::kFrameMetadataBytes) {
    reply_.metadata_bytes = *bytes;
  } else {
    reply_.long_metadata = MetadataText(trailing(), *bytes);
  }
}

// Cuts the message to the server's limit first, so that details repeat the cut
// one. Details that have all of the message make the rest unnecessary.
void ReplyBuilder::PlaceStatus() {
  if (reply_.status.message().size() > limits_.status_bytes) {
    reply_.status = CutMessage(reply_.status, limits_.status_bytes);
  }
  AddStatusDetails();
  if (reply_.status.message().size() > transport::kMaxStatusMessageBytes &&
      !DetailsHaveMessage()) {
    AddStatusRest();
  }
}

bool ReplyBuilder::DetailsHaveMessage() const {
  const auto details = trailing().find(kStatusDetailsKey);
  absl::Status status;
  return details != trailing().end() &&
         FromGoogleRpcStatus(details->second, &status).ok() &&
         status.message() == reply_.status.message();
}

// Reckons how much room the other trailing metadata leave, and sends as much of
// the message as fits.
void ReplyBuilder::AddStatusRest() {
  constexpr size_t kHead = transport::kMaxStatusMessageBytes;
  const absl::StatusOr<uint32_t> bytes = MeasureMetadata(trailing());
  const size_t most = state_.call()->client_max_metadata_bytes();
  const size_t others =
      (bytes.ok() ? *bytes : most) + PairBytes(kStatusRestKey, "");
  const absl::string_view sent = CutText(
      reply_.status.message(), kHead + (others < most ? most - others : 0));
  if (sent.size() > kHead) {
    trailing().emplace(kStatusRestKey, sent.substr(kHead));
  } else {
    reply_.status = CutMessage(reply_.status, kHead);
  }
}

// Adds the payloads of the status as one pair. Leaves the handler's own pair
// alone, and skips details that are too long for the client.
void ReplyBuilder::AddStatusDetails() {
  if (!HasStatusDetails(reply_.status)) return;
  if (trailing().find(kStatusDetailsKey) != trailing().end()) return;
  const std::string details = ToGoogleRpcStatus(reply_.status);
  const absl::StatusOr<uint32_t> bytes = MeasureMetadata(trailing());
  if (!bytes.ok()) return;
  const size_t sum = *bytes + PairBytes(kStatusDetailsKey, details);
  if (sum > transport::kMaxMetadataBytes ||
      !state_.call()->CheckMetadata("trailing", sum).ok()) {
    return;  // The status itself still arrives.
  }
  trailing().emplace(kStatusDetailsKey, details);
}

void ReplyBuilder::WriteTo(uint8_t* out) const {
  if (ABSL_PREDICT_FALSE(reply_.metadata_bytes > 0)) {
    out = WriteMetadata(trailing(), out, out + reply_.metadata_bytes);
  }
  if (reply_.message_bytes > 0) {
    WriteMessage(*messages_.response(), reply_.message_bytes, out);
  }
}

}  // namespace verbena::internal
