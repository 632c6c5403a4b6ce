// The part of UnaryCall that has a Hedge.

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "rpc/internal/client/open_calls.h"
#include "rpc/internal/client/pushback.h"
#include "rpc/internal/client/unary_call.h"
#include "rpc/internal/codec/metadata_codec.h"
#include "rpc/internal/codec/method_name.h"
#include "rpc/internal/codec/protobuf_codec.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {

Picked UnaryCall::PickForHedge(absl::Span<PickedServer* const> avoided,
                               absl::Status* why_not) {
  return calls().PickForHedge(this, avoided, why_not);
}

bool UnaryCall::HedgesAllowed(bool failed) {
  return calls().HedgesAllowed(failed);
}

bool UnaryCall::WakeHedgeAt(absl::Time time) {
  return calls().WakeAt(this, time);
}

void UnaryCall::PostHedge(transport::Task* task) {
  calls().PostFromOutside(task);
}

void UnaryCall::SettleHedge() {
  hedge->Settle();
  CompleteUnlessPosted();
}

void UnaryCall::CancelFirst(const absl::Status& why) {
  connection->Cancel(this, why);
}

absl::Status UnaryCall::WriteHedgeHead(int previous, bool named,
                                       std::string* head) const {
  Metadata metadata = state().options().metadata;
  if (previous > 0) {
    metadata.emplace(kPreviousAttemptsKey, absl::StrCat(previous));
  }
  ASSIGN_OR_RETURN(const uint32_t bytes, MeasureMetadata(metadata));
  head->resize(bytes + (named ? MethodNameBytes(method_name()) : 0));
  uint8_t* out = reinterpret_cast<uint8_t*>(head->data());
  const uint8_t* const limit = out + head->size();
  if (named) out = WriteMethodName(method_name(), out, limit);
  WriteMetadata(metadata, out, limit);
  return absl::OkStatus();
}

void UnaryCall::WriteHedgeBody(uint8_t* out) {
  WriteMessage(*message_, request_.message_bytes, out);
}

// Forgets what the call's own attempt may have brought.
void UnaryCall::TakeHedgeResponse(transport::ClientConnection* at,
                                  absl::Span<const uint8_t> initial_metadata,
                                  const transport::CallResponse& response) {
  ClientCallResults& results = state().results();
  results.set_peer(at->peer());
  results.initial_metadata.clear();
  results.trailing_metadata.clear();
  const absl::Status parsed =
      ParseMetadata(initial_metadata, &results.initial_metadata);
  if (!parsed.ok()) return Fail(parsed);
  TakeResponse(response);
}

void UnaryCall::TakeHedgeFailure(const absl::Status& status) {
  Fail(calls().Explain(status));
}

}  // namespace verbena::internal
