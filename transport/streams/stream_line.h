// The turns of a connection's streams, as a stream sees them.

#ifndef VERBENA_TRANSPORT_STREAMS_STREAM_LINE_H_
#define VERBENA_TRANSPORT_STREAMS_STREAM_LINE_H_

#include "transport/streams/long_message.h"

namespace verbena::transport {

class MessageStream;

// Gives the streams of a connection their turns to send. Poller thread only.
class StreamLine {
 public:
  explicit StreamLine(LongMessageCarrier& carrier) : carrier_(carrier) {}

  // Has `stream` send its frames, now or as soon as the connection has room.
  virtual void Serve(MessageStream* stream) = 0;
  // Ends `stream`: it sends nothing more.
  virtual void Close(MessageStream* stream) = 0;

  // Moves the long messages of the streams.
  LongMessageCarrier& carrier() { return carrier_; }

 protected:
  ~StreamLine() = default;

 private:
  LongMessageCarrier& carrier_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_STREAMS_STREAM_LINE_H_
