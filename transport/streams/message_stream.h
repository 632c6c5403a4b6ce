// The messages of one open streaming call, either way.

#ifndef VERBENA_TRANSPORT_STREAMS_MESSAGE_STREAM_H_
#define VERBENA_TRANSPORT_STREAMS_MESSAGE_STREAM_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "transport/base/byte_buffer.h"
#include "transport/base/limits.h"
#include "transport/base/mutex.h"
#include "transport/polling/task.h"
#include "transport/session/connection.h"
#include "transport/streams/long_message.h"
#include "transport/streams/stream_line.h"
#include "transport/wire/frame.h"

namespace verbena::transport {

// A side of a stream, the same at client and server: see "Streams" in frame.h.
//
// A MessageStream stands between two threads. A reader and a writer, each
// one thread at a time, use the first part of it; the poller's thread does
// the rest. Between them are an inbox and an outbox, of whole messages,
// under a mutex. The reader takes all of the inbox at once, the poller all
// of the outbox. So many small messages share a lock, a task for the poller,
// and a frame.
//
// The mutex is held while a message of at most kLongMessageBytes is written,
// the bytes of a frame are copied, or two buffers are exchanged. Longer copies
// are made with it held in two cases: a long message that comes in frames while
// the reader has not taken the one before it, and bytes that leave a pool that
// is short of memory.
//
// A long message is kept in Buffers, and goes beside the frames where the
// LongMessageCarrier can have it so. In the inbox a mark stands for it.
//
// Neither side ever waits in here: Read() and Write() say that there is nothing
// to read, or no room, and the owner is told when there is.
class MessageStream final : public Task {
 public:
  // The owner of the stream: a call of the layer above.
  class Owner {
   public:
    // Has Run() of the stream called by the poller's thread, soon. Called by
    // the reader and the writer, and not again before Run() has begun.
    virtual void PostStream() = 0;

    // These are called on the poller's thread, in the middle of things: they
    // tell others, and use neither the stream nor the connection.
    // What Read(), or Write(), did not find is there: call it again.
    virtual void OnReadable() = 0;
    virtual void OnWritable() = 0;
    // Whether there is something to send that waits for the connection or for
    // the other side's window. It begins as true, until it is open.
    virtual void OnPending(bool /*pending*/) {}

   protected:
    ~Owner() = default;
  };

  enum class Result : uint8_t {
    kDone,
    kWait,  // The owner is told when to call again.
    kOver,  // There will be nothing more.
    kNoMemory,
  };

  enum class Sent : uint8_t {
    kFrame,
    kNothing,  // There is nothing that may be sent.
    kBlocked,  // There is something, and the connection has no room for it.
  };

  // Views that are valid until the next Read().
  struct Message {
    absl::Span<const uint8_t> message;
    absl::Span<const uint8_t> attachment;
    // If not null, `attachment` is all of it, and may be taken.
    Buffer* attachment_buffer = nullptr;
  };

  // Memory for a part of a long message: best such as the device may use.
  // Empty if there is none.
  using Allocate = absl::FunctionRef<Buffer(size_t)>;

  // Messages of more than `max_message_bytes`, attachment included, are not
  // accepted; `limit_name` says in the error whose limit that is. A client
  // `marks_end` of its messages; a server's end with the RESPONSE. The owner
  // may be set later, before anything is read or written.
  MessageStream(Owner* owner, uint64_t max_message_bytes,
                const char* limit_name, bool marks_end)
      : owner_(owner),
        max_message_bytes_(max_message_bytes),
        limit_name_(limit_name),
        marks_end_(marks_end) {}
  MessageStream(const MessageStream&) = delete;
  MessageStream& operator=(const MessageStream&) = delete;
  // REQUIRES: it is not open, and not posted.
  ~MessageStream() = default;

  // --- For the reader and the writer ---

  Result Read(Message* message);
  // Returns what Read() would return now, without reading. For the reader.
  Result Peek();

  // Adds a message of so many bytes, which `write` writes, and an attachment.
  // kWait if too much is before it that was not sent yet. If it is long,
  // `allocate` gives the memory for it, and the attachment is shared instead of
  // copied if `attachment_buffer`, which may be null, is the same bytes.
  Result Write(uint64_t message_bytes, absl::Span<const uint8_t> attachment,
               const Buffer* attachment_buffer, Allocate allocate,
               absl::FunctionRef<void(uint8_t*)> write);

  // Holds back what is written from now on until ReleaseWrites(), because
  // something else goes first.
  void HoldWrites() { held_.store(true, std::memory_order_relaxed); }

  // No message follows. False if the stream is over.
  bool EndWrites();

  // --- On the poller's thread ---

  void set_owner(Owner* owner) { owner_ = owner; }

  // As Task: looks what the reader and the writer have done.
  void Run() override;

  // The call with that id is open: frames may come and go.
  void Open(StreamLine* line, uint32_t call_id);

  void ReleaseWrites();

  // The body of a DATA has come. Returns what the peer did wrong, or null; then
  // failure() may be set, and GrantDue() be true.
  const char* OnData(absl::Span<const uint8_t> body, bool last);
  // Whether any of a message has come.
  bool has_received() const { return received_ > 0 || longs_told_ > 0; }
  // A WINDOW has come.
  const char* OnWindow(uint64_t limit);
  // A MESSAGE has come, with parts of such lengths. What is not in `message` is
  // in `body`. As OnData().
  const char* OnLongMessage(const MessageHeader& lengths,
                            absl::Span<const uint8_t> body,
                            IncomingMessage message);
  // A part of the message of that number has been READ.
  void OnRead(uint64_t number);
  // Makes a failure() of it.
  void Fail(absl::Status failure) { failure_ = std::move(failure); }
  // Whether frames may come and go.
  bool is_open() const { return line_ != nullptr; }
  // The leases were too short: what comes in frames says how long they should
  // be.
  void ForgetLeases() { lease_bytes_ = 0; }
  // Takes what waits here out of the memory of `pool`, as far as there is other
  // memory.
  void LeavePool(const BufferPool& pool);
  // Why this side can't go on with the stream; OK if it can.
  const absl::Status& failure() const { return failure_; }

  // Whether the other side should be allowed to send more.
  bool GrantDue() const;

  // Sends the next frame. If that loses the connection, the stream may be gone.
  Sent SendFrame(Connection& connection);
  // Whether all that was written is sent, and nothing else will be.
  bool sent_all() const;
  // Tells the owner if OnPending() has something new to tell.
  void NoteProgress();

  // The call is over, or its connection: no message comes any more, and none is
  // sent. What has come can still be read.
  void End();
  // As End(), and leaves the line of its connection. Does nothing to a stream
  // that is not open.
  void Close() {
    if (line_ != nullptr) line_->Close(this);
  }

 private:
  friend class OpenStreams;
  template <typename Call>
  friend class CallQueue;

  // Bytes of memory that an empty buffer keeps.
  static constexpr size_t kKeptBytes = kStreamOutboxBytes;
  // A longer message is written without the mutex, into Buffers of its own.
  static constexpr uint64_t kLongMessageBytes = 16 << 10;

  // Has Run() called unless it is to be anyway.
  void Post() {
    if (!posted_.exchange(true, std::memory_order_acq_rel)) {
      owner_->PostStream();
    }
  }
  using Incoming = std::array<IncomingMessage, kStreamLongMessages>;

  // Exchanges what was read for what has come. kDone if that is something.
  Result TakeInbox();
  static bool Put(uint64_t message_bytes, absl::Span<const uint8_t> attachment,
                  absl::FunctionRef<void(uint8_t*)> write,
                  base::ByteBuffer* buffer);

  // --- Long messages: see message_stream_long.cc ---

  Result WriteLong(uint64_t message_bytes, absl::Span<const uint8_t> attachment,
                   const Buffer* attachment_buffer, Allocate allocate,
                   absl::FunctionRef<void(uint8_t*)> write);
  // Notes the length of a message that came; a long one adapts lease_bytes_.
  void NoteLong(const MessageHeader& header);
  // How many a client may send, if it is told now.
  uint64_t NextLongLimit() const {
    return longs_taken_.load(std::memory_order_acquire) + kStreamLongMessages;
  }
  Sent SendLease();
  // A header that no message can have: a long message stands there.
  static constexpr MessageHeader kMark = {UINT32_MAX, UINT32_MAX};
  static bool IsMark(const MessageHeader& header) {
    return header.message_bytes == UINT32_MAX;
  }
  // kDone if the long message that comes next is here.
  Result PeekLong();
  Result ReadLong(Message* message);
  // Begins to READ those of which there is room for.
  void StartReads();
  // Sends the next long message, or says why not.
  Sent SendLong();
  // Returns how many long messages have come and were not taken.
  uint64_t unread_longs() const {
    return longs_told_ - longs_taken_.load(std::memory_order_acquire);
  }
  // The bytes that are still to be sent, if they are sent in DATA.
  uint64_t SendingBytes() const {
    return has_long_ ? sizeof(MessageHeader) + sending_long_.bytes()
                     : sending_.size();
  }
  // Copies `bytes` of them, from sent_at_ on.
  void CopyOut(uint32_t bytes, uint8_t* out) const;

  // Takes whole messages, as many as there are at the beginning of `body`.
  void TakeMessages(absl::Span<const uint8_t>* body);
  // Takes what there is of one that is not all there.
  void TakePart(absl::Span<const uint8_t>* body);
  // Whether the message with that header is accepted; else sets failure_.
  bool Accept(const MessageHeader& header);
  // These bytes are whole messages: the reader may have them.
  void Deliver(absl::Span<const uint8_t> messages);
  void DeliverPart();
  void WakeReader(bool waits) {
    if (waits && owner_ != nullptr) owner_->OnReadable();
  }
  bool StopWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!reader_waits_.load(std::memory_order_relaxed)) return false;
    reader_waits_.store(false, std::memory_order_relaxed);
    return true;
  }
  void FailForMemory();
  // Grows the window if it was all that held the other side up.
  void AdaptWindow();

  // How much the other side may send in all, if it is told now.
  uint64_t NextLimit() const;
  bool SendWindow(Connection& connection);
  // Exchanges what was sent for what the writer has put there.
  void TakeOutbox();

  Owner* owner_;
  const uint64_t max_message_bytes_;
  const char* const limit_name_;
  const bool marks_end_;

  // The stream's neighbours among those that have something to send.
  MessageStream* next_ = nullptr;
  MessageStream* previous_ = nullptr;

  std::atomic<bool> posted_{false};  // Run() is to come.
  // Set before what is held is written: who finds that under the mutex sees it.
  std::atomic<bool> held_{false};
  // The outbox, or no_more_goes_, is not as TakeOutbox() has left it. Written
  // with the mutex held; the poller saves itself the mutex if there is nothing.
  std::atomic<bool> wrote_{false};

  base::Mutex mutex_;
  base::ByteBuffer inbox_ ABSL_GUARDED_BY(mutex_);
  base::ByteBuffer outbox_ ABSL_GUARDED_BY(mutex_);
  // If there is one, it is all that is in the outbox.
  LongMessage outbox_long_ ABSL_GUARDED_BY(mutex_);
  bool outbox_has_long_ ABSL_GUARDED_BY(mutex_) = false;
  // Long messages that came and were not taken, by number. Null if there never
  // was one. The `state` of an element, and while it is kHere its parts, are
  // for who has the mutex; the rest is the poller's.
  std::unique_ptr<Incoming> incoming_;
  bool no_more_comes_ ABSL_GUARDED_BY(mutex_) = false;
  bool no_more_goes_ ABSL_GUARDED_BY(mutex_) = false;  // EndWrites().
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  bool writer_waits_ ABSL_GUARDED_BY(mutex_) = false;
  // Written with the mutex held, for the hand-over of messages.
  std::atomic<bool> reader_waits_{false};
  // A message has begun to come that the window does not let end.
  std::atomic<bool> stalled_{false};

  // The reader's.
  base::ByteBuffer reading_;  // Whole messages.
  size_t read_at_ = 0;
  LongMessage reading_long_;       // The one that was read last.
  base::ByteBuffer reading_copy_;  // Its message, if the peer may write that.
  std::atomic<uint64_t> longs_taken_{0};
  std::atomic<uint64_t> long_bytes_taken_{0};
  std::atomic<uint64_t> consumed_{0};  // Bytes that were read, in all.
  // When that is so much, the poller should hear of it.
  std::atomic<uint64_t> post_at_{kStreamWindowBytes / 2};

  // The poller's.
  StreamLine* line_ = nullptr;  // Null unless the call is open.
  bool queued_ = false;         // It is in the line there.
  uint32_t call_id_ = 0;
  bool pending_ = true;  // The last value given to OnPending().
  absl::Status failure_;

  uint64_t received_ = 0;                  // Bytes, in all.
  uint64_t granted_ = kStreamWindowBytes;  // Granted to the peer, in all.
  uint64_t window_ = kStreamWindowBytes;
  bool last_came_ = false;
  base::ByteBuffer part_;    // Of a message that is not all here.
  uint64_t part_bytes_ = 0;  // Its length, once its header is here; else 0.
  uint64_t part_end_ = 0;    // Where in the stream it ends; 0 if there is none.
  // How long a lease should be: that of the longest that came of late. 0 if
  // none is wanted.
  uint64_t lease_bytes_ = 0;
  uint64_t longs_told_ = 0;
  uint64_t longs_started_ = 0;  // They are kReading or kHere, or were taken.
  uint64_t long_bytes_started_ = 0;
  // MESSAGEs granted to a client, in all.
  uint64_t longs_granted_ = kStreamLongMessages;

  base::ByteBuffer sending_;
  // Instead of that, if has_long_.
  LongMessage sending_long_;
  bool has_long_ = false;
  bool long_in_frames_ = false;  // To be sent in DATA.
  size_t sent_at_ = 0;           // What of it was sent.
  uint64_t sent_ = 0;            // Bytes, in all.
  uint64_t allowed_ = kStreamWindowBytes;
  bool ends_ = false;      // The writer has ended, and sending_ is the rest.
  bool end_sent_ = false;  // kFlagLastData was sent.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_STREAMS_MESSAGE_STREAM_H_
