#include "rpc/internal/server/handler_stream.h"

#include <cstddef>

#include "absl/time/time.h"
#include "transport/polling/poller.h"

namespace verbena::internal {

using google::protobuf::MessageLite;
using Result = ProtobufStream::Result;

HandlerStream::HandlerStream(transport::ServerCall* call, CallState* state,
                             uint64_t max_message_bytes)
    : call_(*call),
      state_(*state),
      messages_(call->stream(), max_message_bytes, kStreamSendLimit) {
  call->stream()->set_owner(this);
  state->set_stream(&messages_);
}

// Tries, and waits for news only if there is nothing. An event says that
// another try is worth it, no more.
bool HandlerStream::Read(MessageLite* message, Buffer* attachment) {
  while (true) {
    if (reading_stopped_.load(std::memory_order_relaxed)) return false;
    const Result result = messages_.Read(
        message, attachment,
        [this](size_t bytes) { return call_.AllocateAttachment(bytes); });
    if (result != Result::kWait) return result == Result::kDone;
    if (!Await(&readable_)) return false;
  }
}

bool HandlerStream::Write(const MessageLite& message, Attachment attachment) {
  // In front of the first message, since none can be sent after it.
  state_.SendInitialMetadataDue();
  while (true) {
    const Result result = messages_.Write(
        message, attachment,
        [this](size_t bytes) { return call_.AllocatePart(bytes); });
    if (result != Result::kWait) return result == Result::kDone;
    if (!Await(&writable_)) return false;
  }
}

void HandlerStream::StopReading() {
  reading_stopped_.store(true, std::memory_order_relaxed);
  // Wakes a thread that waits in Read(), which then sees the flag.
  Notify(&readable_);
}

void HandlerStream::PostStream() { call_.poller().Post(call_.stream()); }

void HandlerStream::Notify(bool* event) {
  const base::MutexLock lock(mutex_);
  *event = true;
  // All, because a reader and a writer may both wait here, each for its own
  // event.
  changed_.NotifyAll();
}

bool HandlerStream::Await(bool* event) {
  // The client's own deadline may be that much later.
  const absl::Time expiry = call_.deadline() + transport::Poller::kNowAgeMax;
  const base::MutexLock lock(mutex_);
  while (!*event) {
    if (changed_.WaitUntil(mutex_, expiry) || *event) continue;
    // By what this returns the handler is told: nothing that it answers now is
    // an answer, even if the client has not looked at its clock yet.
    static_cast<void>(state_.IsCancelled());
    return false;
  }
  *event = false;
  return true;
}

}  // namespace verbena::internal
