#include "rpc/internal/server/reactor_handler.h"

#include <cstddef>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "rpc/internal/codec/status_text.h"
#include "rpc/internal/server/kept_messages.h"
#include "transport/polling/poller.h"

namespace verbena::internal {

using google::protobuf::MessageLite;
using Result = ProtobufStream::Result;

namespace {

// Bytes that are parsed or copied when the message is read.
size_t BytesToRead(const transport::MessageStream::Message& taken) {
  return taken.message.size() +
         (taken.attachment_buffer == nullptr ? taken.attachment.size() : 0);
}

}  // namespace

// Starts a unary call, and a stream whose requests the reactor reads. If the
// method has one request and streams only responses, reads that request first.
void ReactorHandler::Begin(transport::ServerCall* call) {
  call_ = call;
  reactor_ = nullptr;
  told_cancelled_ = false;
  has_long_ = false;
  if (!method_.streams()) return Start();
  stream_.emplace(call->stream(), share_.reply_limits.message_bytes,
                  kStreamSendLimit);
  state_.set_stream(&*stream_);
  call->stream()->set_owner(this);
  if (messages_.request() == nullptr) return Start();
  // The gate comes before the request is read, because interceptors see each
  // message.
  absl::Status admitted = guard_.Run([] { return absl::OkStatus(); });
  if (!admitted.ok()) return owner_.EndReactor(std::move(admitted));
  ReadRequest();
}

void ReactorHandler::ReadRequest() {
  const Result result = Read(messages_.request(), nullptr);
  // OnReadable() or a worker leads here again, by Run().
  if (result == Result::kWait) return;
  if (result == Result::kDone) return Start();
  owner_.EndReactor(failed() ? Annotate(stream_->failure(), method_.full_name())
                             : NoRequest(method_.full_name()));
}

// Has the method make its reactor, then serves what the reactor has started
// already.
void ReactorHandler::Start() {
  if (messages_.response() != nullptr) messages_.response()->Clear();
  absl::Status started = guard_.Run([this] {
    reactor_ = method_.Start(&state_, &messages_);
    return reactor_ != nullptr
               ? absl::OkStatus()
               : absl::InternalError(absl::StrCat(
                     method_.full_name(), ": the method returned no reactor"));
  });
  if (!started.ok()) return owner_.EndReactor(std::move(started));
  Reactions::Bind(reactor_, this);
  // Before the first reaction, and after the reactor can reach its call.
  reactor_->OnBound();
  RunReactions();
}

void ReactorHandler::Run() {
  // Without a reactor the call still waits for its one request.
  if (reactor_ == nullptr) return ReadRequest();
  RunReactions();
}

void ReactorHandler::RunReactions() {
  Reactions::Run(reactor_, [this](uint32_t wanted) { return Serve(wanted); });
}

void ReactorHandler::SendInitialMetadata() {
  // Cleared before the reaction, which may start something else.
  Reactions::Clear(reactor_, Reactions::kSendInitial);
  state_.SendInitialMetadata();
  reactor_->OnSendInitialMetadataDone(!state_.IsCancelled() &&
                                      !state_.initial_metadata_failed());
}

// Sends initial metadata first, then does one read and one write at most. The
// end comes last, when nothing was read and no worker has a message.
Reactions::Look ReactorHandler::Serve(uint32_t wanted) {
  if ((wanted & Reactions::kSendInitial) != 0) {
    SendInitialMetadata();
    return Reactions::Look::kDone;
  }
  // If both a read and a write can be done, each has its turn, so that neither
  // waits for the other.
  bool did_read = false;
  if (stream_.has_value() && (wanted & Reactions::kRead) != 0) {
    const Result result = Read(Reactions::read_message(*reactor_),
                               Reactions::read_attachment(*reactor_));
    if (result != Result::kWait) {
      Reactions::Clear(reactor_, Reactions::kRead);
      // A failed stream takes no more messages: the reactor hears of it as of
      // any cancellation.
      if (failed()) OnCancelled();
      reactor_->OnReadDone(result == Result::kDone);
      did_read = true;
    }
  }
  const Reactions::Look after_read =
      did_read ? Reactions::Look::kDone : Reactions::Look::kNothing;
  if (stream_.has_value() && (wanted & Reactions::kWrite) != 0) {
    const Result result = Write(Reactions::write_message(*reactor_),
                                Reactions::write_attachment(*reactor_));
    if (result == Result::kWait) return after_read;
    Reactions::Clear(reactor_, Reactions::kWrite);
    if (failed()) OnCancelled();
    // The reactor has called StartWriteAndFinish(), so it expects no reaction.
    if (!reactor_->write_finishes()) {
      reactor_->OnWriteDone(result == Result::kDone);
    }
    return Reactions::Look::kDone;
  }
  if (did_read || (wanted & Reactions::kFinish) == 0) return after_read;
  // The worker writes to the reactor's message.
  if (on_worker_) return Reactions::Look::kNothing;
  absl::Status status = reactor_->TakeStatus();
  // A read that is still open is over before OnDone().
  if ((wanted & Reactions::kRead) != 0) {
    Reactions::Clear(reactor_, Reactions::kRead);
    reactor_->OnReadDone(false);
  }
  owner_.EndReactor(FinalStatus(std::move(status)));
  return Reactions::Look::kOver;
}

// Writes the single response of a method that streams only requests, and
// prefers the cause of a failed stream to the reactor's status.
absl::Status ReactorHandler::FinalStatus(absl::Status status) {
  if (!stream_.has_value()) return status;
  if (status.ok() && messages_.response() != nullptr) {
    // Nothing was written before it. If it can't be because the call has ended,
    // that has its status.
    Write(*messages_.response(), {});
  }
  // The cause, whatever the reactor has made of it.
  return failed() ? Annotate(stream_->failure(), method_.full_name()) : status;
}

void ReactorHandler::OnCancelled() {
  // Several events end up here: a cancellation, and a stream that fails at a
  // read or a write.
  if (reactor_ == nullptr || std::exchange(told_cancelled_, true)) return;
  reactor_->OnCancel();
}

void ReactorHandler::Detach() {
  if (!stream_.has_value()) return;
  // The stream tells this of nothing more: the next call has another stream.
  call_->stream()->set_owner(nullptr);
  state_.set_stream(nullptr);
  stream_.reset();
}

void ReactorHandler::OnOver() {
  if (reactor_ == nullptr) return;
  // OnDone() mostly deletes the reactor. Renew() and Unbind() come before,
  // because a reactor may serve another call from then on.
  ServerReactor* const reactor = std::exchange(reactor_, nullptr);
  reactor->Renew();
  Reactions::Unbind(reactor);
  reactor->OnDone();
}

void ReactorHandler::PostReactions() {
  share_.poster.Post(call_->poller(), this);
}

// A long message takes the same way as a long unary request: a worker parses
// it, so that the poller can serve others meanwhile.
Result ReactorHandler::Read(MessageLite* message, Buffer* attachment) {
  // A worker uses taken_ and long_message_ just now.
  if (on_worker_) return Result::kWait;
  // The worker has parsed the message that this read waits for.
  if (ABSL_PREDICT_FALSE(long_result_.has_value())) {
    const Result result = *long_result_;
    long_result_.reset();
    return result;
  }
  const Result result = ReadShort(message, attachment);
  if (ABSL_PREDICT_TRUE(!has_long_)) return result;
  has_long_ = false;
  long_message_ = message;
  long_attachment_ = attachment;
  // Before the task is submitted: a worker may begin at once.
  on_worker_ = true;
  absl::Status submitted = owner_.SubmitToWorkers();
  if (submitted.ok()) return Result::kWait;
  on_worker_ = false;
  return stream_->FailRead(std::move(submitted));
}

Result ReactorHandler::ReadShort(MessageLite* message, Buffer* attachment) {
  // ReadNow() may have taken a long message on another thread. Only Read(), on
  // the poller, passes it to a worker.
  if (ABSL_PREDICT_FALSE(has_long_)) return Result::kWait;
  // The next message may need the memory.
  if (attachment != nullptr) attachment->Reset();
  const Result result = stream_->Take(&taken_);
  if (result != Result::kDone) return result;
  has_long_ = ParsesOnWorker(BytesToRead(taken_), &pace_);
  return has_long_ ? Result::kWait : Parse(message, attachment);
}

Result ReactorHandler::Parse(MessageLite* message, Buffer* attachment) {
  const ParseTimer timer(&pace_, BytesToRead(taken_));
  return stream_->Parse(taken_, message, attachment, [this](size_t bytes) {
    return call_->AllocateAttachment(bytes);
  });
}

void ReactorHandler::ParseLong() {
  // Left for Read(): reactions are the poller's.
  long_result_ = Parse(long_message_, long_attachment_);
}

void ReactorHandler::OnLongParsed() {
  on_worker_ = false;
  if (reactor_ == nullptr) return ReadRequest();
  Reactions::Tell(reactor_);
}

ProtobufStream::Result ReactorHandler::Write(const MessageLite& message,
                                             Attachment attachment) {
  // In front of the first message, since none can be sent after it.
  state_.SendInitialMetadataDue();
  return stream_->Write(message, attachment, [this](size_t bytes) {
    return call_->AllocatePart(bytes);
  });
}

OperationNow ReactorHandler::ReadNow(MessageLite* message, Buffer* attachment) {
  return ProtobufStream::AsOperation(ReadShort(message, attachment));
}

OperationNow ReactorHandler::WriteNow(const MessageLite& message,
                                      Attachment attachment) {
  return ProtobufStream::AsOperation(Write(message, attachment));
}

void ReactorHandler::PostStream() {
  share_.poster.Post(call_->poller(), call_->stream());
}

void ReactorHandler::Tell() {
  // Before there is a reactor, the news leads to ReadRequest().
  if (reactor_ != nullptr) return Reactions::Tell(reactor_);
  PostReactions();
}

}  // namespace verbena::internal
