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
      // The thread has the ownership there, so a read that waits would wait for
      // ever.
      started_(channel->RunsCallbackOfRound()
                   ? NotStarted(ChannelImpl::BlocksInCallback())
                   : Start(type)) {}

BlockingStream::~BlockingStream() {
  if (finished_) return;
  // Otherwise Finish() would read until the server ends the stream.
  if (started_) context_->TryCancel();
  Finish().IgnoreError();
}

// Tries without the ownership first. A wake-up means only that another try is
// worth it.
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
  // A second Finish() may not touch the context, which may have another call by
  // now.
  if (finished_) return status_;
  if (started_) {
    DropUnread();
    // The stream may be over before the call: a message that cannot be parsed
    // ends it.
    Await(&ended_);
  }
  // Before the context is released: interceptors still use it.
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
  absl::Status status = StreamCall::OnInitialMetadata(metadata);
  // Release, as the load in WaitForInitialMetadata() acquires: the metadata are
  // in the context before.
  has_initial_metadata_.store(true, std::memory_order_release);
  Notify(&readable_);
  return status;
}

void BlockingStream::Report() {
  // First, so that a thread that is woken finds the stream over.
  messages().End();
  Notify(&ended_);
}

void BlockingStream::OnPending(bool pending) {
  // Complete() has taken an ended call out of the background for good.
  if (stage != Stage::kEnded) calls().SetInBackground(this, pending);
}

void BlockingStream::Await(Event* event) {
  Wait wait(this, event);
  channel().Await(&wait, wait.waiter());
}

// Runs on the owner, as Notify() does, so the two need no lock.
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
    // Kept for the next thread that waits, which would otherwise miss it.
    event->happened = true;
  } else {
    channel().Finish(waiter);
  }
}

}  // namespace verbena::internal
