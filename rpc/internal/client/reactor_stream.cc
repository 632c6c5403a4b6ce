#include "rpc/internal/client/reactor_stream.h"

#include <utility>

#include "rpc/internal/client/channel_impl.h"

namespace verbena::internal {

using google::protobuf::MessageLite;

ReactorStream::ReactorStream(ChannelImpl* channel,
                             std::shared_ptr<const void> owner,
                             const char* method_name, uint64_t method_id,
                             ClientContext* context, ClientReactor* reactor)
    : StreamCall(channel, std::move(owner), method_name, method_id, context),
      reactor_(reactor),
      // A reactor that does not care counts as told.
      told_initial_metadata_(!reactor->HearsOfInitialMetadata()) {
  Reactions::Bind(reactor, this);
}

// Starts the call, or marks it as ended and closed at once. In either case
// reactions run on the background thread, never inside the caller.
void ReactorStream::Start(RpcType type, const MessageLite* request) {
  started_ = StreamCall::Start(type);
  if (!started_) {
    messages().End();
    Reactions::Tell(reactor_, Reactions::kEnded | Reactions::kClosed);
  } else if (request != nullptr) {
    // A stream has room for its first message.
    TryWrite(*request, {});
    messages().EndWrites();
  }
  PostReactions();
}

void ReactorStream::Report() {
  // Comes twice: when the call ends, and when the task that Serve() posted
  // runs.
  if (std::exchange(reported_, true)) {
    return Reactions::Tell(reactor_, Reactions::kClosed);
  }
  messages().End();
  // The reactor may be gone when it is told.
  Waiter* const waiter = waiter_for_end_;
  Reactions::Tell(reactor_, Reactions::kEnded);
  if (waiter != nullptr) channel().Finish(waiter);
}

absl::Status ReactorStream::OnInitialMetadata(
    absl::Span<const uint8_t> metadata) {
  absl::Status status = StreamCall::OnInitialMetadata(metadata);
  if (status.ok()) {
    // Release: the thread of the reactions reads the metadata after its
    // acquiring load.
    has_initial_metadata_.store(true, std::memory_order_release);
    Reactions::Tell(reactor_);
  }
  return status;
}

// Cancels the call, waits for its end, and gives the context up. The call
// itself stays until OnDone().
void ReactorStream::Abandon() {
  // A call that never started has no end to wait for.
  if (started_) {
    context_->TryCancel();
    EndWait wait(this);
    channel().Await(&wait, wait.waiter());
  }
  // The interceptors hear of it while there is a context.
  KeepStatus(TakeFinalStatus());
  ReleaseContext();
}

void ReactorStream::EndWait::Run() {
  // The call may have ended before this task ran.
  if (call_->reported_) return call_->channel().Finish(&waiter_);
  call_->waiter_for_end_ = &waiter_;
}

void ReactorStream::PostReactions() { channel().PostInBackground(&reactions_); }

OperationNow ReactorStream::ReadNow(MessageLite* message, Buffer* attachment) {
  return ProtobufStream::AsOperation(TryRead(message, attachment));
}

OperationNow ReactorStream::WriteNow(const MessageLite& message,
                                     Attachment attachment) {
  return ProtobufStream::AsOperation(TryWrite(message, attachment));
}

void ReactorStream::RunReactions() {
  Reactions::Run(reactor_, [this](uint32_t wanted) { return Serve(wanted); });
}

// Does one read and one write at most, and then says whether anything was done.
// The end of the call comes last, when no read is wanted and no hold is left.
Reactions::Look ReactorStream::Serve(uint32_t wanted) {
  // If both a read and a write can be done, each has its turn, so that neither
  // waits for the other.
  Result read = Result::kWait;
  Reactions::Look after_read = Reactions::Look::kNothing;
  if ((wanted & Reactions::kRead) != 0) {
    read = TryRead(Reactions::read_message(*reactor_),
                   Reactions::read_attachment(*reactor_));
  } else if ((wanted & Reactions::kDropUnread) != 0 &&
             TrySkip() == Result::kDone) {
    after_read = Reactions::Look::kDone;
  }
  // Between the read and its reaction: initial metadata are told of before the
  // first message.
  if (!told_initial_metadata_ && TellInitialMetadata(wanted, read)) {
    after_read = Reactions::Look::kDone;
  }
  if (read != Result::kWait) {
    // Cleared first, because the reaction may start the next operation.
    Reactions::Clear(reactor_, Reactions::kRead);
    reactor_->OnReadDone(read == Result::kDone);
    after_read = Reactions::Look::kDone;
  }
  if ((wanted & Reactions::kWrite) != 0) {
    const Result result = TryWrite(Reactions::write_message(*reactor_),
                                   Reactions::write_attachment(*reactor_));
    if (result == Result::kWait) return after_read;
    Reactions::Clear(reactor_, Reactions::kWrite);
    if (reactor_->TakeWriteIsLast()) messages().EndWrites();
    reactor_->OnWriteDone(result == Result::kDone);
    return Reactions::Look::kDone;
  }
  if ((wanted & Reactions::kWritesDone) != 0) {
    Reactions::Clear(reactor_, Reactions::kWritesDone);
    reactor_->OnWritesDoneDone(messages().EndWrites());
    return Reactions::Look::kDone;
  }
  // A reaction may have started more, so the end waits for another look.
  if (after_read == Reactions::Look::kDone ||
      (wanted & Reactions::kRead) != 0 || Reactions::IsHeld(wanted)) {
    return after_read;
  }
  if ((wanted & Reactions::kClosed) != 0) {
    End();
    return Reactions::Look::kOver;
  }
  if ((wanted & Reactions::kEnded) != 0 && !std::exchange(closing_, true)) {
    // Tasks that reading has posted come before this one. When it runs,
    // Report() is called again.
    channel().Post(this);
  }
  return Reactions::Look::kNothing;
}

bool ReactorStream::TellInitialMetadata(uint32_t wanted, Result read) {
  // Without a read the stream is asked, without taking a message away.
  if ((wanted & Reactions::kRead) == 0) read = messages().Peek();
  const bool has = has_initial_metadata_.load(std::memory_order_acquire);
  if (!has && read == Result::kWait) return false;
  told_initial_metadata_ = true;
  reactor_->OnReadInitialMetadataDone(has || read == Result::kDone);
  return true;
}

// Keeps the channel and the reactor in locals, because *this goes before the
// last reaction. From inside OnDone() the reactor may start another call.
void ReactorStream::End() {
  absl::Status ended = TakeFinalStatus();
  ReleaseContext();
  const std::shared_ptr<const void> channel = owner();
  ClientReactor* const reactor = reactor_;
  const absl::Status status = reactor->FinalStatus(std::move(ended));
  delete this;
  Reactions::Unbind(reactor);
  reactor->OnDone(status);
}

}  // namespace verbena::internal
