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
      reactor_(reactor) {
  Reactions::Bind(reactor, this);
}

void ReactorStream::Start(RpcType type, const MessageLite* request) {
  started_ = StreamCall::Start(type);
  if (!started_) {
    messages().End();
    Reactions::Tell(reactor_, Reactions::kEnded | Reactions::kClosed);
  } else if (request != nullptr) {
    // There is room for the first one.
    TryWrite(*request, {});
    messages().EndWrites();
  }
  PostReactions();
}

void ReactorStream::Report() {
  if (std::exchange(reported_, true)) {
    return Reactions::Tell(reactor_, Reactions::kClosed);
  }
  messages().End();
  // The reactor may be gone when it is told.
  Waiter* const waiter = waiter_for_end_;
  Reactions::Tell(reactor_, Reactions::kEnded);
  if (waiter != nullptr) channel().Finish(waiter);
}

void ReactorStream::Abandon() {
  if (started_) {
    context_->TryCancel();
    EndWait wait(this);
    channel().Await(&wait, wait.waiter());
  }
  // The interceptors hear of it while there is a context.
  KeepStatus(TakeFinalStatus());
  ReleaseContext();
  set_has_context(false);
}

void ReactorStream::EndWait::Run() {
  if (call_->reported_) return call_->channel().Finish(&waiter_);
  call_->waiter_for_end_ = &waiter_;
}

void ReactorStream::PostReactions() { channel().AddErrand(this); }

OperationNow ReactorStream::ReadNow(MessageLite* message, Buffer* attachment) {
  return ProtobufStream::AsOperation(TryRead(message, attachment));
}

OperationNow ReactorStream::WriteNow(const MessageLite& message,
                                     Attachment attachment) {
  return ProtobufStream::AsOperation(TryWrite(message, attachment));
}

void ReactorStream::RunErrand() {
  Reactions::Run(reactor_, [this](uint32_t wanted) { return Serve(wanted); });
}

Reactions::Look ReactorStream::Serve(uint32_t wanted) {
  // Of both that can be done each has its turn: neither waits for the other.
  bool did_read = false;
  if ((wanted & Reactions::kRead) != 0) {
    const Result result = TryRead(Reactions::read_message(*reactor_),
                                  Reactions::read_attachment(*reactor_));
    if (result != Result::kWait) {
      Reactions::Clear(reactor_, Reactions::kRead);
      reactor_->OnReadDone(result == Result::kDone);
      did_read = true;
    }
  }
  const Reactions::Look after_read =
      did_read ? Reactions::Look::kDone : Reactions::Look::kNothing;
  if ((wanted & Reactions::kWrite) != 0) {
    const Result result = TryWrite(Reactions::write_message(*reactor_),
                                   Reactions::write_attachment(*reactor_));
    if (result == Result::kWait) return after_read;
    Reactions::Clear(reactor_, Reactions::kWrite);
    reactor_->OnWriteDone(result == Result::kDone);
    return Reactions::Look::kDone;
  }
  if ((wanted & Reactions::kWritesDone) != 0) {
    Reactions::Clear(reactor_, Reactions::kWritesDone);
    reactor_->OnWritesDoneDone(messages().EndWrites());
    return Reactions::Look::kDone;
  }
  if (did_read || (wanted & Reactions::kRead) != 0 ||
      Reactions::IsHeld(wanted)) {
    return after_read;
  }
  if ((wanted & Reactions::kClosed) != 0) {
    End();
    return Reactions::Look::kOver;
  }
  if ((wanted & Reactions::kEnded) != 0 && !std::exchange(closing_, true)) {
    // What reading has posted stands before this: then Report() comes again.
    channel().Post(this);
  }
  return Reactions::Look::kNothing;
}

void ReactorStream::End() {
  absl::Status ended = TakeFinalStatus();
  ReleaseContext();
  const std::shared_ptr<const void> channel = owner();
  ClientReactor* const reactor = reactor_;
  const absl::Status status = reactor->FinalStatus(std::move(ended));
  delete this;
  reactor->OnDone(status);
}

}  // namespace verbena::internal
