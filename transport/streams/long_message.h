// Long messages of streams, which go beside its DATA: see "Streams" in frame.h.

#ifndef VERBENA_TRANSPORT_STREAMS_LONG_MESSAGE_H_
#define VERBENA_TRANSPORT_STREAMS_LONG_MESSAGE_H_

#include <cstdint>

#include "transport/base/buffer.h"
#include "transport/memory/buffer_pool.h"
#include "transport/session/frame_sender.h"
#include "transport/streams/stream_types.h"
#include "transport/wire/placement.h"
#include "transport/wire/remote_arenas.h"

namespace verbena::transport {

// The two parts of one; either may be empty.
struct LongMessage {
  Buffer message;
  Buffer attachment;

  uint64_t bytes() const {
    return uint64_t{message.size()} + attachment.size();
  }
  // Moves parts that stand in `pool` to plain memory, as far as there is some.
  void LeavePool(const BufferPool& pool);
};

// A long message that has come, or of which this side has been told. Setting
// `state` to kHere hands it over to the reader.
struct IncomingMessage {
  enum class State : uint8_t {
    kTold,
    kReading,  // A READ is under way.
    kHere,
  };

  // The parts that are here or are being READ.
  LongMessage parts;
  State state = State::kHere;
  // The peer may write to `parts.message`.
  bool shared = false;

  // Places and lengths of the parts that are to be READ; length 0 if the part
  // is here.
  RemoteArenas::RemoteRange message_source;
  RemoteArenas::RemoteRange attachment_source;
  uint32_t message_bytes = 0;
  uint32_t attachment_bytes = 0;
  uint8_t reads_left = 0;

  uint64_t bytes() const {
    return state == State::kTold
               ? parts.bytes() + message_bytes + attachment_bytes
               : parts.bytes();
  }
};

// Where a part of one stands in an arena.
struct ArenaPlace {
  uint16_t arena = 0;
  uint32_t offset = 0;
};

// Sends the MESSAGE that says so of `message`; false if there is no room for
// it. The parts that are `place`d inline go with it, and their ArenaPlace means
// nothing.
bool SendMessageFrame(FrameSender& connection, uint32_t call_id,
                      const LongMessage& message, Placement place,
                      ArenaPlace message_at, ArenaPlace attachment_at);

// Moves the long messages of a connection's streams: the calls of a client or
// of a server. On the poller's thread.
class LongMessageCarrier {
 public:
  enum class Outcome : uint8_t {
    kSent,
    kOtherSent,  // A frame that had to go before: to be called again.
    kWait,       // Nothing can be done: the stream is served when that changes.
    kBlocked,    // The connection has no room for a frame.
    kInFrames,   // It is to be sent in DATA.
  };

  // Sends a message of the stream `call_id`, or goes on with that. Unless it
  // returns kSent, it leaves `*message`, to be tried again; if it does, sending
  // may have lost the connection, and the stream may be gone.
  virtual Outcome SendLong(uint32_t call_id, LongMessage* message) = 0;

  // Lends the peer memory of `bytes` for a message of the stream if that has
  // less than kStreamLongMessages, of which `unread` were used and not read.
  // kWait: there is nothing to do.
  virtual Outcome SendLease(uint32_t call_id, uint64_t bytes,
                            uint64_t unread) = 0;

  // Begins to READ what `*message` names, the stream's message of that
  // `number`; MessageStream::OnRead() follows for each part. False if there is
  // no memory now, after which the stream is served again, or never will be,
  // after which it has been closed.
  virtual bool StartRead(uint32_t call_id, uint64_t number,
                         IncomingMessage* message) = 0;

 protected:
  ~LongMessageCarrier() = default;
};

// Returns what `outcome` means to the turn of the stream.
constexpr StreamSent SentOf(LongMessageCarrier::Outcome outcome) {
  using enum LongMessageCarrier::Outcome;
  if (outcome == kBlocked) return StreamSent::kBlocked;
  return outcome == kSent || outcome == kOtherSent ? StreamSent::kFrame
                                                   : StreamSent::kNothing;
}

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_STREAMS_LONG_MESSAGE_H_
