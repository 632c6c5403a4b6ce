// The messages of one open streaming call, either way.

#ifndef VERBENA_TRANSPORT_STREAMS_MESSAGE_STREAM_H_
#define VERBENA_TRANSPORT_STREAMS_MESSAGE_STREAM_H_

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "transport/base/intrusive_list.h"
#include "transport/memory/buffer_pool.h"
#include "transport/polling/task.h"
#include "transport/session/frame_sender.h"
#include "transport/streams/long_message.h"
#include "transport/streams/stream_reader.h"
#include "transport/streams/stream_types.h"
#include "transport/streams/stream_writer.h"
#include "transport/wire/frame.h"

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

// A side of a stream, the same at client and server: see "Streams" in frame.h.
//
// A MessageStream stands between two threads. A reader and a writer, each
// one thread at a time, use the first part of it; the poller's thread does
// the rest. Between them are an inbox and an outbox, of whole messages,
// each under a mutex. The reader takes all of the inbox at once, the poller all
// of the outbox. So many small messages share a lock, a task for the poller,
// and a frame.
//
// A long message is kept in Buffers, and goes beside the frames where the
// LongMessageCarrier can have it so.
//
// Neither side ever waits in here: Read() and Write() say that there is nothing
// to read, or no room, and the owner is told when there is.
class MessageStream final : public Task, public base::ListLink<MessageStream> {
 public:
  // The owner of the stream: a call of the layer above.
  class Owner {
   public:
    // Has Run() of the stream called by the poller's thread, soon. Called by
    // the reader and the writer, and not again before Run() has begun.
    virtual void PostStream() = 0;

    // These are called on the poller's thread, in the middle of things: they
    // tell others, and use neither the stream nor the connection.
    // Read() has something to return, or Write() has room: call it again.
    virtual void OnReadable() = 0;
    virtual void OnWritable() = 0;
    // Whether there is something to send that waits for the connection or for
    // the other side's window. It begins as true, until it is open.
    virtual void OnPending(bool /*pending*/) {}

   protected:
    ~Owner() = default;
  };

  using Result = StreamResult;
  using Sent = StreamSent;
  using Message = StreamMessage;
  // Memory for a part of a long message: best such as the device may use.
  // Empty if there is none.
  using Allocate = StreamWriter::Allocate;

  // Messages of more than `max_message_bytes`, attachment included, are not
  // accepted; `limit_name` says in the error whose limit that is. A client
  // `marks_end` of its messages; a server's end with the RESPONSE. The owner
  // may be set later, before anything is read or written.
  MessageStream(Owner* owner, uint64_t max_message_bytes,
                const char* limit_name, bool marks_end)
      : owner_(owner),
        // Only a server says how many MESSAGEs it takes: it READs them.
        reader_(max_message_bytes, limit_name, /*grants_longs=*/!marks_end),
        writer_(marks_end) {}
  MessageStream(const MessageStream&) = delete;
  MessageStream& operator=(const MessageStream&) = delete;
  // REQUIRES: it is not open, and not posted.
  ~MessageStream() = default;

  // --- For the reader and the writer ---

  Result Read(Message* message) {
    bool post = false;
    const Result result = reader_.Read(message, &post);
    return Posted(post, result);
  }
  // Returns what Read() would return now, without reading. For the reader.
  Result Peek() {
    bool post = false;
    const Result result = reader_.Peek(&post);
    return Posted(post, result);
  }

  // Adds a message of so many bytes, which `write` writes, and an attachment.
  // kWait if too much is before it that was not sent yet. If it is long,
  // `allocate` gives the memory for it, and the attachment is shared instead of
  // copied if `attachment_buffer`, which may be null, is the same bytes.
  Result Write(uint64_t message_bytes, absl::Span<const uint8_t> attachment,
               const Buffer* attachment_buffer, Allocate allocate,
               absl::FunctionRef<void(uint8_t*)> write) {
    bool post = false;
    const Result result = writer_.Write(
        message_bytes, attachment, attachment_buffer, allocate, write, &post);
    return Posted(post, result);
  }

  // Holds back what is written from now on until ReleaseWrites(), because
  // something else goes first.
  void HoldWrites() { writer_.Hold(); }

  // Returns the limit of LimitWrites(). For the writer.
  uint64_t max_write_bytes() const { return writer_.max_message_bytes(); }

  // No message follows. False if the stream is over.
  bool EndWrites() {
    bool post = false;
    const bool ended = writer_.EndWrites(&post);
    return Posted(post, ended);
  }

  // --- On the poller's thread ---

  void set_owner(Owner* owner) { owner_ = owner; }

  // Messages of more bytes, without their attachments, are not accepted either,
  // or not written. The second returns the length of the longest message that
  // was written before.
  void LimitReads(uint64_t bytes, const char* limit_name) {
    reader_.LimitMessages(bytes, limit_name);
  }
  uint64_t LimitWrites(uint64_t bytes) { return writer_.LimitMessages(bytes); }

  // From now on the stream can be restarted: after Close() it is not over, and
  // Open() sends everything again to another peer. For that it keeps copies of
  // what it sends. If they would have more than `max_bytes`, or anything has
  // come from the peer, they go, and the stream can't be restarted any more.
  // Before it is first opened.
  void AllowRestart(uint64_t max_bytes) { writer_.Keep(max_bytes); }
  bool can_restart() const { return writer_.keeps(); }
  void ForbidRestart() { writer_.StopKeeping(); }

  // As Task: looks what the reader and the writer have done.
  void Run() override;

  // The call with that id is open: frames may come and go.
  void Open(StreamLine* line, uint32_t call_id);
  // Whether frames may come and go.
  bool is_open() const { return line_ != nullptr; }

  void ReleaseWrites();

  // The body of a DATA has come. Returns what the peer did wrong, or null; then
  // failure() may be set, and GrantDue() be true.
  const char* OnData(absl::Span<const uint8_t> body, bool last) {
    ForbidRestart();
    const char* const error = reader_.OnData(body, last);
    WakeReader();
    return error;
  }
  // Whether any of a message has come.
  bool has_received() const { return reader_.has_received(); }
  // A WINDOW has come.
  const char* OnWindow(uint64_t limit) { return writer_.OnWindow(limit); }
  // A MESSAGE has come, with parts of such lengths. What is not in `message` is
  // in `body`. As OnData().
  const char* OnLongMessage(const MessageHeader& lengths,
                            absl::Span<const uint8_t> body,
                            IncomingMessage message);
  // A part of the message of that number has been READ.
  void OnRead(uint64_t number) {
    reader_.OnRead(number);
    WakeReader();
  }
  // Makes a failure() of it.
  void Fail(absl::Status failure) { reader_.Fail(std::move(failure)); }
  // Why this side can't go on with the stream; OK if it can.
  const absl::Status& failure() const { return reader_.failure(); }
  // The leases were too short: what comes in frames says how long they should
  // be.
  void ForgetLeases() { reader_.ForgetLeases(); }
  // Takes what waits here out of the memory of `pool`, as far as there is other
  // memory.
  void LeavePool(const BufferPool& pool) {
    reader_.LeavePool(pool);
    writer_.LeavePool(pool);
  }

  // Whether the other side should be allowed to send more.
  bool GrantDue() const { return reader_.GrantDue(); }

  // Sends the next frame. If that loses the connection, the stream may be gone.
  // REQUIRES: is_open().
  Sent SendFrame(FrameSender& connection);
  // Whether all that was written is sent, and nothing else will be.
  bool sent_all() const { return writer_.sent_all(); }
  // Tells the owner if OnPending() has something new to tell.
  void NoteProgress();

  // The call is over, or its connection: no message comes any more, and none is
  // sent. What has come can still be read.
  void End();
  // For the line, when the stream has left it.
  void EndUnlessRestarted();
  // As End(), unless it can be restarted, and leaves the line of its
  // connection. Does nothing to a stream that is not open.
  void Close() {
    if (line_ != nullptr) line_->Close(this);
  }

 private:
  // Returns `result`. Before, if `post`, has Run() called unless it is to be
  // anyway.
  template <typename T>
  T Posted(bool post, T result) {
    // Acquire and release, as in Run(): the poller's thread that finds posted_
    // set sees what was done before.
    if (post && !posted_.exchange(true, std::memory_order_acq_rel)) {
      owner_->PostStream();
    }
    return result;
  }
  void WakeReader() {
    if (reader_.TakeWake() && owner_ != nullptr) owner_->OnReadable();
  }
  void WakeWriter(bool waits) {
    if (waits && owner_ != nullptr) owner_->OnWritable();
  }

  Owner* owner_;
  std::atomic<bool> posted_{false};  // Run() is to come.
  StreamReader reader_;
  StreamWriter writer_;

  // The poller's.
  StreamLine* line_ = nullptr;  // Null unless the call is open.
  uint32_t call_id_ = 0;
  bool pending_ = true;  // The last value given to OnPending().
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_STREAMS_MESSAGE_STREAM_H_
