#include "rpc/internal/server/handler_call.h"

#include <algorithm>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "rpc/internal/codec/metadata_codec.h"
#include "rpc/internal/codec/method_name.h"
#include "rpc/internal/codec/protobuf_codec.h"
#include "rpc/internal/codec/status_text.h"
#include "rpc/internal/server/handler_call_pool.h"
#include "rpc/status_details.h"
#include "transport/base/clock.h"
#include "transport/base/status_macros.h"
#include "transport/polling/poller.h"
#include "transport/polling/posted_function.h"

namespace verbena::internal {
namespace {

// Serialised bytes after which that is measured. Two of them may be a field
// that takes hundreds in memory; to measure each small call would make it
// slower by a tenth.
constexpr uint64_t kMeasureBytes = 1 << 10;

}  // namespace

HandlerCall::HandlerCall(HandlerCallPool* pool, const Method* method,
                         int method_index, ThreadPool* threads,
                         BlockingMethod* blocking, const CallGate* gate,
                         const ReplyLimits& limits, MethodCounters* counters)
    : WorkerTask(blocking == nullptr ? nullptr : &blocking->pace),
      pool_(pool),
      method_(method),
      method_index_(method_index),
      threads_(threads),
      blocking_(blocking),
      gate_(gate),
      max_reply_bytes_(limits.message_bytes),
      max_status_bytes_(limits.status_bytes),
      counters_(*counters),
      messages_(method->NewMessages()),
      request_(messages_ == nullptr ? nullptr : messages_->request()),
      response_(messages_ == nullptr ? nullptr : messages_->response()),
      streams_(method->streams()),
      reactors_(method->asynchronous()
                    ? std::make_unique<ReactorHandler>(
                          this, method, messages_.get(), max_reply_bytes_)
                    : nullptr) {}

void HandlerCall::Begin(transport::ServerCall* call) {
  call_ = call;
  counters_.NoteStart(call->message().size() + call->attachment().size());
  timed_ = threads_ != nullptr || reactors_ != nullptr || counters_.IsTimed();
  if (timed_) begun_ = __builtin_ia32_rdtsc();
  call->set_user(this);
  is_large_ = false;
  parsed_ = false;
  admitted_ = false;
  told_expired_.store(false, std::memory_order_relaxed);
  if (ABSL_PREDICT_FALSE(!initial_failure_.ok())) initial_failure_ = {};
  // Finish() has moved the rest of the last reply away.
  reply_.status = absl::OkStatus();
  reply_.metadata_bytes = 0;
  reply_.message_bytes = 0;
  reply_.writer = nullptr;
  data().Reset(call->deadline());
  if (ABSL_PREDICT_FALSE(!call->attachment().empty())) {
    data().request_attachment = call->TakeAttachment();
  }
  if (ABSL_PREDICT_FALSE(!call->metadata().empty() || method_->is_generic())) {
    reply_.status = TakeMetadata();
    if (!reply_.status.ok()) return Finish();
  }
  if (ABSL_PREDICT_FALSE(streams_ != (call->stream() != nullptr))) {
    reply_.status = absl::UnimplementedError(absl::StrCat(
        method(), streams_ ? " streams" : " does not stream",
        " by the server's .proto, and the client calls it as if it did",
        streams_ ? " not" : ""));
    return Finish();
  }
  if (reactors_ != nullptr) {
    starts_reactor_ = !streams_ && call->owns_message() &&
                      ParsesOnWorker(call->message().size());
    if (ABSL_PREDICT_FALSE(starts_reactor_)) return ServeOnWorker();
    if (!streams_ && !Parse()) return Finish();
    return reactors_->Begin(call);
  }
  if (ABSL_PREDICT_FALSE(streams_)) {
    stream_ = std::make_unique<HandlerStream>(call, this, max_reply_bytes_);
    return ServeOnWorker();
  }
  if (threads_ == nullptr) {
    if (Parse()) Handle();
    return Finish();
  }
  if (!call->owns_message() && !Parse()) return Finish();
  if (IsShort()) {
    step_ = Step::kBesidePoller;
    if (call->PostShort(this)) return;
  }
  ServeOnWorker();
}

bool HandlerCall::IsShort() const {
  return blocking_->pace.is_short() && call_->message().size() <= kLargeBytes;
}

bool HandlerCall::IsCancelled() const {
  if (call_ == nullptr) return at_end_.cancelled;
  if (call_->cancelled()) return true;
  if (stream_ != nullptr && stream_->messages().failed()) return true;
  if (reactors_ != nullptr && reactors_->failed()) return true;
  if (call_->deadline() == absl::InfiniteFuture()) return false;
  // Never before the client's own clock says so: the deadline came from one
  // that may be that late.
  const absl::Time expiry = call_->deadline() + transport::Poller::kNowAgeMax;
  if (base::Now() < expiry) return false;
  told_expired_.store(true, std::memory_order_relaxed);
  return true;
}

bool HandlerCall::HoldsTooMuch() {
  if (ABSL_PREDICT_FALSE(is_large_)) return true;
  if (ABSL_PREDICT_TRUE(unmeasured_bytes_ < kMeasureBytes)) return false;
  unmeasured_bytes_ = 0;
  is_large_ = messages_->SpaceUsed() > kLargeBytes;
  return is_large_;
}

bool HandlerCall::Parse() {
  parsed_ = true;
  is_large_ = call_->message().size() > kLargeBytes;
  unmeasured_bytes_ += call_->message().size();
  // The pace of a blocking method includes its handler.
  const ParseTimer timer(this,
                         reactors_ == nullptr ? 0 : call_->message().size());
  const absl::Status status = ParseMessage(call_->message(), request_);
  if (ABSL_PREDICT_FALSE(!status.ok())) {
    reply_.status =
        Annotate(status, absl::StrCat(method(), " (at the server)"));
    return false;
  }
  if (call_->owns_message()) call_->ReleaseMessage();
  return true;
}

void HandlerCall::Post(transport::Poller& poller, transport::Task* task) {
  pool_->Post(poller, task);
}

void HandlerCall::KeepForOnDone() {
  if (!reactors_->reacts_to_done()) return;
  at_end_.cancelled = IsCancelled();
  at_end_.peer = call_->peer();
  at_end_.device = call_->device_name();
  at_end_.auth_context = call_->auth_context();
}

std::shared_ptr<const AuthContext> HandlerCall::auth_context() const {
  if (auth_context_ != nullptr) return auth_context_;
  if (call_ == nullptr) {
    return at_end_.auth_context != nullptr ? at_end_.auth_context
                                           : std::make_shared<AuthContext>();
  }
  if (call_->auth_context() != nullptr) return call_->auth_context();
  return std::make_shared<AuthContext>();
}

absl::Status HandlerCall::Guard(absl::FunctionRef<absl::Status()> handler) {
  try {
    if (ABSL_PREDICT_FALSE(gate_ != nullptr)) RETURN_IF_ERROR(Admit());
    return handler();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat(method(),
                     ": the handler found no memory (see `ulimit -v` of the "
                     "server)"));
  } catch (...) {
    // The exception's text is not for clients.
    return absl::UnknownError(
        absl::StrCat(method(), ": the handler threw an exception"));
  }
}

absl::Status HandlerCall::RunHandler() {
  return Guard(
      [this] { return method_->Run(this, messages_.get(), stream_.get()); });
}

absl::Status HandlerCall::Answer(absl::Status status) const {
  if (ABSL_PREDICT_FALSE(told_expired_.load(std::memory_order_relaxed))) {
    status = CancelledStatus();
  }
  return status;
}

void HandlerCall::HandleStream() {
  absl::Status status = Answer(RunHandler());
  if (stream_->messages().failed()) {
    // The cause, whatever the handler has made of it.
    status = Annotate(stream_->messages().failure(), method());
  }
  TakeStreamStatus(std::move(status));
}

void HandlerCall::EndReactor(absl::Status status) {
  status = Answer(std::move(status));
  if (streams_) {
    TakeStreamStatus(std::move(status));
    unmeasured_bytes_ += kMeasureBytes;  // They are not counted elsewhere.
    // Behind what the stream has posted, which may be gone afterwards.
    return PostReply();
  }
  TakeReply(std::move(status));
  Finish();
}

std::stop_token HandlerCall::stop_token() {
  const base::MutexLock lock(cancel_mutex_);
  if (!stop_source_.has_value()) {
    cancel_used_.store(true, std::memory_order_relaxed);
    stop_source_.emplace();
    if (cancel_seen_) stop_source_->request_stop();  // Calls nobody yet.
  }
  return stop_source_->get_token();
}

void HandlerCall::OnCancelled() {
  {
    const base::MutexLock lock(cancel_mutex_);
    cancel_used_.store(true, std::memory_order_relaxed);
    cancel_seen_ = true;
    if (reactors_ == nullptr && !stop_source_.has_value()) return;
  }
  if (!std::exchange(cancel_posted_, true)) call_->poller().Post(&cancel_task_);
}

void HandlerCall::TellCancelled() {
  cancel_posted_ = false;
  if (over_) return Over();
  std::optional<std::stop_source> source;
  {
    const base::MutexLock lock(cancel_mutex_);
    source = stop_source_;
  }
  if (source.has_value()) source->request_stop();
  if (reactors_ != nullptr) reactors_->OnCancelled();
}

bool HandlerCall::Handle() {
  response_->Clear();
  return TakeReply(Answer(RunHandler()));
}

void HandlerCall::TakeStreamStatus(absl::Status status) {
  reply_.status = std::move(status);
  if (ABSL_PREDICT_TRUE(interception_ == nullptr)) return;
  interception_->End(&reply_.status);
  interception_.reset();
}

bool HandlerCall::TakeReply(absl::Status status) {
  bool good = false;
  if (ABSL_PREDICT_TRUE(status.ok())) {
    good = MeasureReply();
  } else {
    // The reply may take much memory all the same.
    unmeasured_bytes_ += kMeasureBytes;
    reply_.status = std::move(status);
  }
  return ABSL_PREDICT_TRUE(interception_ == nullptr) ? good
                                                     : TakeInterceptedReply();
}

bool HandlerCall::MeasureReply() {
  absl::StatusOr<uint64_t> bytes =
      MeasureMessage(*response_, max_reply_bytes_,
                     "the server's limit (SetMaxSendMessageSize)");
  if (ABSL_PREDICT_FALSE(!bytes.ok())) {
    unmeasured_bytes_ += kMeasureBytes;
    // A reply without its required fields is the server's fault, not the
    // caller's.
    const absl::StatusCode code = absl::IsInvalidArgument(bytes.status())
                                      ? absl::StatusCode::kInternal
                                      : bytes.status().code();
    reply_.status = absl::Status(
        code, absl::StrCat(method(), ": reply ", bytes.status().message()));
    return false;
  }
  reply_.message_bytes = *bytes;
  reply_.attachment = std::move(data().response_attachment);
  is_large_ = is_large_ || *bytes > kLargeBytes;
  unmeasured_bytes_ += *bytes;
  return true;
}

absl::Status HandlerCall::CancelledStatus() const {
  if (told_expired_.load(std::memory_order_relaxed)) {
    return absl::DeadlineExceededError(
        absl::StrCat(method(), ": the deadline of the call has passed"));
  }
  // Nobody hears this: the call has ended at the client.
  return absl::CancelledError("cancelled before the handler ran");
}

void HandlerCall::WriteAhead() {
  // With trailing metadata the sum is not known yet; such replies are rare, and
  // large ones with them rarer: the poller writes them.
  if (!data().sends_no_metadata()) return;
  if (!reply_.attachment.empty()) return;  // See AllocateReply().
  if (reply_.message_bytes <= transport::kFrameReplyBytes) return;
  auto buffer = call_->AllocateReply(reply_.message_bytes);
  // Without it Finish() waits for memory, or says what is wrong.
  if (!buffer.ok()) return;
  WriteMessage(*response_, reply_.message_bytes, buffer->data());
  reply_.buffer = *std::move(buffer);
}

bool HandlerCall::SendPlainReply() {
  if (!reply_.status.ok() || streams_ || !reply_.attachment.empty() ||
      !reply_.buffer.empty() || !data().sends_no_metadata()) {
    return false;
  }
  uint8_t* const out = call_->BeginReply(reply_.message_bytes);
  if (out == nullptr) return false;
  WriteMessage(*response_, reply_.message_bytes, out);
  NoteEnd();
  data().DropAttachments();
  if (ABSL_PREDICT_FALSE(reactors_ != nullptr)) KeepForOnDone();
  std::exchange(call_, nullptr)->SendReply();
  Over();
  return true;
}

void HandlerCall::Finish() {
  if (ABSL_PREDICT_TRUE(SendPlainReply())) return;
  PlaceMetadata();
  if (!reply_.status.ok()) {
    reply_.message_bytes = 0;
    reply_.attachment.Reset();
  }
  if (const absl::Status too_long = call_->CheckReply(reply_);
      ABSL_PREDICT_FALSE(!too_long.ok())) {
    reply_.status = Annotate(too_long, method());
    reply_.message_bytes = 0;
    reply_.buffer.Reset();
    reply_.attachment.Reset();
  }
  NoteEnd();
  if (ABSL_PREDICT_FALSE(streams_)) NoteStreamEnd();
  data().DropAttachments();
  const bool written = !reply_.buffer.empty();
  const bool to_write =
      !written && reply_.metadata_bytes + reply_.message_bytes > 0;
  if (to_write) {
    reply_.writer = this;  // OnReplyDone() recycles.
    // That may be long from now.
    if (reactors_ == nullptr && HoldsTooMuch()) messages_->DropRequest();
  }
  if (stream_ != nullptr) {
    stream_->Detach();
    stream_.reset();
  }
  if (reactors_ != nullptr) {
    KeepForOnDone();
    reactors_->Detach();
  }
  transport::ServerCall* call = std::exchange(call_, nullptr);
  call->Finish(std::move(reply_));
  if (!to_write) Over();
}

void HandlerCall::NoteEnd() {
  counters_.NoteResponse(reply_.message_bytes + reply_.attachment.size());
  if (!timed_) return counters_.NoteUntimedEnd(reply_.status.code());
  const uint64_t now = __builtin_ia32_rdtsc();
  const uint64_t cycles = now - begun_;
  counters_.NoteEnd(reply_.status.code(), cycles);
  if (ABSL_PREDICT_FALSE(pool_->slow_calls().IsSlow(cycles))) {
    pool_->slow_calls().Add(method(), call_->peer(), reply_.status.code(),
                            cycles, now);
  }
}

void HandlerCall::NoteStreamEnd() {
  const ProtobufStream* stream = nullptr;
  if (stream_ != nullptr) stream = &stream_->messages();
  if (reactors_ != nullptr) stream = reactors_->stream();
  if (stream == nullptr) return;
  counters_.NoteStream(stream->read_count(), stream->write_count());
}

void HandlerCall::Over() {
  if (ABSL_PREDICT_FALSE(reactors_ != nullptr)) reactors_->OnOver();
  over_ = cancel_posted_;
  if (ABSL_PREDICT_FALSE(over_)) return;  // TellCancelled() calls Over() again.
  if (ABSL_PREDICT_FALSE(cancel_used_.load(std::memory_order_relaxed))) {
    const base::MutexLock lock(cancel_mutex_);
    cancel_used_.store(false, std::memory_order_relaxed);
    cancel_seen_ = false;
    stop_source_.reset();
  }
  pool_->Recycle(this);
}

void HandlerCall::OnReplyDone() { Over(); }

void HandlerCall::WriteReply(uint8_t* out) {
  if (ABSL_PREDICT_FALSE(reply_.metadata_bytes > 0)) {
    out = WriteMetadata(data().trailing_metadata, out,
                        out + reply_.metadata_bytes);
  }
  if (reply_.message_bytes > 0) {
    WriteMessage(*response_, reply_.message_bytes, out);
  }
}

}  // namespace verbena::internal
