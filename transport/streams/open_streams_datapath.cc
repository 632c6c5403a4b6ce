#include "transport/streams/open_streams.h"

namespace verbena::transport {

void OpenStreams::Serve(MessageStream* stream) {
  if (!stream->is_linked()) line_.PushBack(stream);
  // Noted first, so that the stream is served at the end of the round, or at
  // once outside of one.
  connection_.NoteWaiting();
  connection_.SendWaitingSoon();
}

void OpenStreams::Close(MessageStream* stream) {
  if (stream->is_linked()) line_.Remove(stream);
  stream->EndUnlessRestarted();
}

// Gives each stream a turn of one frame, until the connection has no room or no
// stream has anything to send.
bool OpenStreams::Send() {
  // Each is taken out before it is tried: sending may lose the connection, and
  // that ends all of them.
  while (!line_.empty() && connection_.usable()) {
    MessageStream* const stream = line_.PopFront();
    const MessageStream::Sent sent = stream->SendFrame(connection_);
    // If the connection is lost, the stream may be gone.
    if (!connection_.usable()) return false;
    if (sent == MessageStream::Sent::kFrame) {
      // Behind all others, so that none waits for a stream that has much.
      line_.PushBack(stream);
      continue;
    }
    // The first one stays the first, or others would pass it by for ever.
    const bool blocked = sent == MessageStream::Sent::kBlocked;
    if (blocked) line_.PushFront(stream);
    stream->NoteProgress();
    if (blocked) return true;
  }
  return !line_.empty();
}

}  // namespace verbena::transport
