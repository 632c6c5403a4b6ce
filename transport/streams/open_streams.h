// The open streams of one connection that have something to send.

#ifndef VERBENA_TRANSPORT_STREAMS_OPEN_STREAMS_H_
#define VERBENA_TRANSPORT_STREAMS_OPEN_STREAMS_H_

#include "transport/base/intrusive_list.h"
#include "transport/session/connection.h"
#include "transport/streams/long_message.h"
#include "transport/streams/message_stream.h"

namespace verbena::transport {

// The error of a peer that sent a frame of a stream for another call.
inline constexpr char kNoStream[] =
    "it sent DATA, a WINDOW or a MESSAGE of a call without them";

// The open streams of a connection, which take turns, a frame each: none waits
// for the long message of another. The same at client and server. Confined to
// the poller's thread.
class OpenStreams final : public StreamLine {
 public:
  // Both must outlive it, and may still be under construction.
  OpenStreams(Connection& connection, LongMessageCarrier& carrier)
      : StreamLine(carrier), connection_(connection) {}
  OpenStreams(const OpenStreams&) = delete;
  OpenStreams& operator=(const OpenStreams&) = delete;

  void Serve(MessageStream* stream) override;

  void Close(MessageStream* stream) override;

  // For CallTable::SendWaiting(). Returns whether something waits for the
  // connection.
  bool Send();
  // How many streams do.
  uint32_t waiting() const { return line_.size(); }

 private:
  Connection& connection_;
  base::IntrusiveList<MessageStream> line_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_STREAMS_OPEN_STREAMS_H_
