#include <utility>

#include "transport/streams/open_streams.h"

namespace verbena::transport {

void OpenStreams::Serve(MessageStream* stream) {
  if (!std::exchange(stream->queued_, true)) line_.PushBack(stream);
  connection_.NoteWaiting();
  connection_.SendWaitingSoon();
}

void OpenStreams::Close(MessageStream* stream) {
  if (std::exchange(stream->queued_, false)) line_.Remove(stream);
  stream->End();
}

bool OpenStreams::Send() {
  // Each is taken out before it is tried: sending may lose the connection, and
  // that ends all of them.
  while (!line_.empty() && connection_.usable()) {
    MessageStream* const stream = line_.front();
    line_.Remove(stream);
    stream->queued_ = false;
    const MessageStream::Sent sent = stream->SendFrame(connection_);
    if (!connection_.usable()) return false;
    if (sent == MessageStream::Sent::kFrame) {
      stream->queued_ = true;
      line_.PushBack(stream);
      continue;
    }
    if (sent == MessageStream::Sent::kBlocked) {
      stream->queued_ = true;
      line_.PushFront(stream);
    }
    stream->NoteProgress();
    if (stream->queued_) return true;
  }
  return !line_.empty();
}

}  // namespace verbena::transport
