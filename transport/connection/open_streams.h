// The open streams of one connection that have something to send.

#ifndef VERBENA_TRANSPORT_CONNECTION_OPEN_STREAMS_H_
#define VERBENA_TRANSPORT_CONNECTION_OPEN_STREAMS_H_

#include "transport/connection/call_queue.h"
#include "transport/connection/connection.h"
#include "transport/connection/long_message.h"
#include "transport/connection/message_stream.h"

namespace verbena::transport {

// The error of a peer that sent a frame of a stream for another call.
inline constexpr char kNoStream[] =
    "it sent DATA, a WINDOW or a MESSAGE of a call without them";

// The open streams of a connection, which take turns, a frame each: none waits
// for the long message of another. The same at client and server. Confined to
// the poller's thread.
class OpenStreams {
 public:
  // Both must outlive it, and may still be under construction.
  OpenStreams(Connection& connection, LongMessageCarrier& carrier)
      : connection_(connection), carrier_(carrier) {}
  OpenStreams(const OpenStreams&) = delete;
  OpenStreams& operator=(const OpenStreams&) = delete;

  // Sends what `stream` has to send, now or as soon as it can.
  void Serve(MessageStream* stream);

  // Ends an open stream; does nothing to one that is not open.
  void Close(MessageStream* stream);

  // For CallTable::SendWaiting(). Returns whether something waits for the
  // connection.
  bool Send();
  // How many streams do.
  uint32_t waiting() const { return line_.size(); }

  LongMessageCarrier& carrier() { return carrier_; }

 private:
  Connection& connection_;
  LongMessageCarrier& carrier_;
  CallQueue<MessageStream> line_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CONNECTION_OPEN_STREAMS_H_
