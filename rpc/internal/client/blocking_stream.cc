#include "rpc/internal/client/blocking_stream.h"

#include <utility>

#include "rpc/internal/client/channel_impl.h"
#include "rpc/internal/client/open_calls.h"

namespace verbena::internal {

using google::protobuf::MessageLite;

BlockingStream::BlockingStream(ChannelImpl* channel,
                               std::shared_ptr<const void> owner,
                               const char* method_name, uint64_t method_id,
                               RpcType type, ClientContext* context)
    : StreamCall(channel, std::move(owner), method_name, method_id, context),
      started_(channel->RunsCallbackOfRound()
                   ? NotStarted(ChannelImpl::BlocksInCallback())
                   : Start(type)) {}

BlockingStream::~BlockingStream() {
  if (finished_) return;
  if (started_) context_->TryCancel();
  Finish().IgnoreError();
}

bool BlockingStream::Read(MessageLite* message, Buffer* attachment) {
  // Another call may have the context when this one is finished.
  if (!started_ || finished_) return false;
  while (true) {
    const Result result = TryRead(message, attachment);
    if (result != Result::kWait) return result == Result::kDone;
    Await(&readable_);
  }
}

bool BlockingStream::Write(const MessageLite& message, Attachment attachment) {
  if (!started_) return false;
  while (true) {
    const Result result = TryWrite(message, attachment);
    if (result != Result::kWait) return result == Result::kDone;
    Await(&writable_);
  }
}

bool BlockingStream::WritesDone() { return started_ && messages().EndWrites(); }

absl::Status BlockingStream::Finish() {
  if (finished_) return status_;
  if (started_) {
    DropUnread();
    Await(&ended_);
  }
  status_ = TakeFinalStatus();
  finished_ = true;
  ReleaseContext();
  return status_;
}

// Reads to the end of the stream: the server may wait until the client reads.
void BlockingStream::DropUnread() {
  while (true) {
    const Result result = TrySkip();
    if (result == Result::kWait) Await(&readable_);
    if (result == Result::kOver) return;
  }
}

void BlockingStream::WaitForInitialMetadata() {
  // A message, or the end, says that there are none.
  while (started_ && !has_initial_metadata_.load(std::memory_order_acquire) &&
         messages().Peek() == Result::kWait) {
    Await(&readable_);
  }
}

absl::Status BlockingStream::OnInitialMetadata(
    absl::Span<const uint8_t> metadata) {
  absl::Status status = OpenCall::OnInitialMetadata(metadata);
  has_initial_metadata_.store(true, std::memory_order_release);
  Notify(&readable_);
  return status;
}

void BlockingStream::Report() {
  messages().End();
  Notify(&ended_);
}

void BlockingStream::OnPending(bool pending) {
  if (stage != Stage::kEnded) calls().SetInBackground(this, pending);
}

void BlockingStream::Await(Event* event) {
  Wait wait(this, event);
  channel().Await(&wait, wait.waiter());
}

void BlockingStream::Wait::Run() {
  if (std::exchange(event_->happened, false)) {
    call_->channel().Finish(&waiter_);
  } else {
    event_->waiter = &waiter_;
  }
}

void BlockingStream::Notify(Event* event) {
  Waiter* const waiter = std::exchange(event->waiter, nullptr);
  if (waiter == nullptr) {
    event->happened = true;
  } else {
    channel().Finish(waiter);
  }
}

}  // namespace verbena::internal
