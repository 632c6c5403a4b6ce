#include "rpc/internal/client/open_call.h"

#include <string>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "rpc/internal/client/open_calls.h"
#include "rpc/internal/codec/long_status.h"
#include "rpc/internal/codec/metadata_codec.h"
#include "rpc/internal/codec/method_name.h"
#include "rpc/internal/codec/status_text.h"
#include "rpc/status_details.h"
#include "transport/base/cycle_counter.h"
#include "transport/base/limits.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {

// The counter costs less than the clock. CallSampler chooses which are timed.
uint64_t OpenCall::BeginTiming(OpenCalls* calls) {
  return calls->sampler().IsNextTimed() ? base::CycleNow() : 0;
}

// Fills in what the transport reads of the context, then opens it to
// TryCancel(). Open() comes last, because Cancel() may run from then on.
bool OpenCall::OpenContext() {
  if (ABSL_PREDICT_FALSE(!has_context_)) return ContextInUse();
  if (ABSL_PREDICT_FALSE(!state().options().metadata.empty())) {
    const absl::StatusOr<uint32_t> metadata_bytes =
        MeasureMetadata(state().options().metadata);
    if (!metadata_bytes.ok()) return NotOpened(metadata_bytes.status());
    PlaceHead(*metadata_bytes);
  }
  request_.deadline = state().options().deadline();
  state().Open(this);
  return true;
}

// Lets TryCancel() return at once while the interceptors run. Resume() makes it
// wait for Open() again.
bool OpenCall::StartInterception(RpcType type) {
  // The interceptors may use the context, and others may cancel it.
  state().Pause();
  interception_ = ClientInterception::New(*calls_->interceptors(), method_name_,
                                          type, context_);
  if (interception_ != nullptr) {
    status_ = interception_->Start();
    // The context stays closed: for TryCancel() the call has ended.
    if (!status_.ok()) {
      stage = Stage::kRefused;
      return false;
    }
  }
  state().Resume();
  return true;
}

void OpenCall::ChangeSendsName() {
  const uint32_t name_bytes = MethodNameBytes(method_name_);
  // Either term is zero: PlaceHead() puts the head in one place.
  const uint32_t bytes = request_.metadata_bytes +
                         static_cast<uint32_t>(request_.long_metadata.size());
  sends_name_ = !sends_name_;
  PlaceHead(sends_name_ ? bytes + name_bytes : bytes - name_bytes);
}

// Decides where the head goes. A short head is written straight into the frame
// later. A long one is written now, into memory that lives as long as the
// context.
void OpenCall::PlaceHead(uint32_t bytes) {
  if (bytes <= transport::kFrameMetadataBytes) {
    request_.metadata_bytes = bytes;
    request_.long_metadata = {};
    return;
  }
  std::string& text = *state().long_metadata();
  text.resize(bytes);
  uint8_t* const out = reinterpret_cast<uint8_t*>(text.data());
  WriteNameAndMetadata(out, out + bytes);
  request_.metadata_bytes = 0;
  request_.long_metadata = absl::MakeConstSpan(out, bytes);
}

uint8_t* OpenCall::WriteNameAndMetadata(uint8_t* out,
                                        const uint8_t* limit) const {
  // First, because the server reads the name as the first pair.
  if (sends_name_) out = WriteMethodName(method_name_, out, limit);
  return WriteMetadata(state().options().metadata, out, limit);
}

// Leaves the context alone, since another call has it.
bool OpenCall::ContextInUse() {
  status_ = Explain(absl::FailedPreconditionError(
      "the ClientContext is in use by another call"));
  stage = Stage::kRefused;
  return false;
}

bool OpenCall::NotOpened(const absl::Status& status) {
  state().CloseUnopened();
  status_ = Explain(status);
  stage = Stage::kRefused;
  return false;
}

void OpenCall::Run() { calls_->RunPosted(this); }

absl::Status OpenCall::OnInitialMetadata(absl::Span<const uint8_t> metadata) {
  if (hedge != nullptr && hedge->decided()) return absl::OkStatus();
  // As in gRPC: a server that sends them has begun to answer.
  if (retry != nullptr) retry->committed = true;
  return ParseMetadata(metadata, &state().results().initial_metadata);
}

// Parses the metadata before the status, because they may hold the rest of a
// long status message.
bool OpenCall::TakeTrailerSlow(const transport::CallResponse& response) {
  absl::StatusOr<std::string> rest = std::string();
  if (!response.metadata.empty()) {
    rest = TakeTrailingMetadata(response);
    if (!rest.ok()) {
      Fail(rest.status());
      return false;
    }
  }
  if (response.code == absl::StatusCode::kOk) return true;
  absl::Status error = ReadError(response, *rest);
  if (TryAgainAfter(error)) return false;
  status_ = std::move(error);
  End();
  return false;
}

// Keeps the metadata for the user, without the library's own pair.
absl::StatusOr<std::string> OpenCall::TakeTrailingMetadata(
    const transport::CallResponse& response) {
  Metadata* const trailing = &state().results().trailing_metadata;
  RETURN_IF_ERROR(ParseMetadata(response.metadata, trailing));
  return TakeStatusRest(response.status_message.size(), trailing);
}

// Maps the code and the text of the response to a status. A server knows the
// hash of an unknown method only, so the client puts the name in.
absl::Status OpenCall::ReadError(const transport::CallResponse& response,
                                 absl::string_view rest) const {
  const absl::string_view text(
      reinterpret_cast<const char*>(response.status_message.data()),
      response.status_message.size());
  const absl::StatusCode code = KnownCode(response.code);
  if (code == absl::StatusCode::kUnimplemented &&
      text == UnknownMethodText(request_.method_id)) {
    return absl::UnimplementedError(
        absl::StrCat(method_name_, ": the server at ", context_->peer(),
                     " has no such service or method"));
  }
  absl::Status status(code, absl::StrCat(text, rest));
  const Metadata& trailing = state().results().trailing_metadata;
  const auto details = trailing.find(kStatusDetailsKey);
  if (details != trailing.end()) TakeStatusDetails(details->second, &status);
  return status;
}

// The server has never seen the REQUEST, so a second attempt cannot run the
// call twice.
void OpenCall::OnUnsent(const absl::Status& why) {
  attempt.EndUnsent();
  if (ABSL_PREDICT_TRUE(hedge == nullptr)) return calls_->TryAgain(this);
  if (!hedge->OnFirstFailed(why, Metadata(), /*unsent=*/true)) Fail(why);
}

void OpenCall::OnFailed(const absl::Status& status) {
  attempt.EndWith(status.code());
  if (!TryAgainAfter(status)) Fail(calls_->Explain(status));
}

bool OpenCall::TryAgainAfter(const absl::Status& status) {
  if (ABSL_PREDICT_FALSE(hedge != nullptr)) {
    ClientCallResults& results = state().results();
    if (!hedge->OnFirstFailed(status, results.trailing_metadata,
                              /*unsent=*/false)) {
      return false;
    }
    // The call may end without an answer, and then has no metadata.
    if (!hedge->decided()) {
      results.initial_metadata.clear();
      results.trailing_metadata.clear();
    }
    return true;
  }
  return ABSL_PREDICT_FALSE(retry != nullptr) &&
         calls_->TryAgainLater(this, status);
}

void OpenCall::Fail(const absl::Status& status) {
  status_ = Explain(status);
  End();
}

absl::Status OpenCall::Explain(const absl::Status& status) const {
  return Annotate(status, method_name_);
}

// Counts the end, closes the context, then completes the call. Close() comes
// before the look at cancel_posted_, because a cancellation may be posted until
// it returns.
void OpenCall::End() {
  stage = Stage::kEnded;
  if (begun_ != 0) {
    counters_->NoteEnd(status_.code(), base::CycleNow() - begun_);
  } else {
    counters_->NoteUntimedEnd(status_.code());
  }
  calls_->sampler().NoteEnd();
  if (ABSL_PREDICT_FALSE(retry != nullptr)) EndRetries();
  state().Close();
  if (ABSL_PREDICT_FALSE(hedge != nullptr)) {
    calls_->RemoveWake(this);
    if (status_.ok()) calls_->NoteRetriableSuccess();
    if (!hedge->End()) return;
  }
  CompleteUnlessPosted();
}

void OpenCall::CompleteUnlessPosted() {
  // Nobody posts cancel_task_ any more. If it stands in a queue, it completes
  // the call when it comes out of there.
  if (ABSL_PREDICT_FALSE(cancel_posted_.load(std::memory_order_relaxed)) &&
      !cancel_ran_) {
    return;
  }
  calls_->Complete(this);
}

void OpenCall::Cancel() {
  // Once a call: further cancellations change nothing. Relaxed, because Close()
  // orders this flag before End() reads it.
  if (cancel_posted_.exchange(true, std::memory_order_relaxed)) return;
  calls_->PostFromOutside(&cancel_task_);
}

// A call that ended while this task stood in the queue was kept for it, and
// completes here.
void OpenCall::RunCancel() {
  cancel_ran_ = true;
  if (stage == Stage::kEnded) {
    if (hedge == nullptr || !hedge->settling()) calls_->Complete(this);
  } else {
    calls_->Cancel(this);
  }
}

}  // namespace verbena::internal
