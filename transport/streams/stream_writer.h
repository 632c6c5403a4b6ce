// The half of a stream that sends messages.

#ifndef VERBENA_TRANSPORT_STREAMS_STREAM_WRITER_H_
#define VERBENA_TRANSPORT_STREAMS_STREAM_WRITER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "transport/base/byte_buffer.h"
#include "transport/base/limits.h"
#include "transport/base/mutex.h"
#include "transport/memory/buffer_pool.h"
#include "transport/session/frame_sender.h"
#include "transport/streams/long_message.h"
#include "transport/streams/stream_types.h"

namespace verbena::transport {

// Keeps what the writer has put until the poller's thread takes it, and sends
// it within the peer's window. Functions are as those of MessageStream that
// have the same name. Those that take `post` set it if the poller's thread has
// to look at the stream.
//
// The mutex is held while a message of at most kLongMessageBytes is written or
// two buffers are exchanged.
class StreamWriter {
 public:
  using Allocate = absl::FunctionRef<Buffer(size_t)>;

  // `marks_end`: the last DATA says that it is the last.
  explicit StreamWriter(bool marks_end) : marks_end_(marks_end) {}

  // --- Writer only ---

  StreamResult Write(uint64_t message_bytes,
                     absl::Span<const uint8_t> attachment,
                     const Buffer* attachment_buffer, Allocate allocate,
                     absl::FunctionRef<void(uint8_t*)> write, bool* post);
  bool EndWrites(bool* post);
  uint64_t max_message_bytes() const;
  void Hold() { held_.store(true, std::memory_order_relaxed); }

  // --- Poller thread only ---

  void Release() { held_.store(false, std::memory_order_relaxed); }
  const char* OnWindow(uint64_t limit);
  uint64_t LimitMessages(uint64_t bytes);
  // Keeps copies of all that is sent, for Rewind(), while they have no more
  // than `max_bytes` together. Before anything is fetched.
  void Keep(uint64_t max_bytes) {
    kept_ = std::make_unique<Kept>(Kept{.max_bytes = max_bytes, .bytes = {}});
  }
  bool keeps() const { return kept_ != nullptr; }
  void StopKeeping() { kept_.reset(); }
  // Sends everything again, to a peer that has got none of it. REQUIRES:
  // keeps().
  void Rewind();
  // Takes what the writer has put, if all before it is sent. Returns whether
  // the owner has to hear that there is room.
  bool Fetch();
  // Sends the next frame of that.
  StreamSent SendFrame(FrameSender& connection, uint32_t call_id,
                       LongMessageCarrier& carrier);
  bool sent_all() const {
    return sent_at_ == sending_.bytes() &&
           !wrote_.load(std::memory_order_acquire) &&
           (!marks_end_ || !ends_ || end_sent_);
  }
  void LeavePool(const BufferPool& pool);
  // As Fetch(), but drops everything.
  bool End();

 private:
  // Short messages, each behind its header, or one long message.
  struct Batch {
    base::ByteBuffer messages;
    std::optional<LongMessage> long_message;

    // The bytes that it has in DATA.
    uint64_t bytes() const {
      return long_message.has_value()
                 ? sizeof(MessageHeader) + long_message->bytes()
                 : messages.size();
    }
    // Copies `bytes` of those, from `at` on.
    void CopyTo(uint8_t* out, uint64_t at, uint32_t bytes) const;
    void Clear(size_t kept_bytes) {
      messages.Clear(kept_bytes);
      long_message.reset();
    }
  };

  // Messages that may have to be sent again, each behind its header.
  struct Kept {
    uint64_t max_bytes;
    base::ByteBuffer bytes;
  };

  // Writes a message into Buffers, without the mutex.
  StreamResult WriteLong(uint64_t message_bytes,
                         absl::Span<const uint8_t> attachment,
                         const Buffer* attachment_buffer, Allocate allocate,
                         absl::FunctionRef<void(uint8_t*)> write, bool* post);
  // Sets wrote_. Returns whether the poller's thread has to be told, as it has
  // been since the last Fetch() if that was set before.
  bool NoteWritten() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sends the long message, or says why not.
  StreamSent SendLong(uint32_t call_id, LongMessageCarrier& carrier);
  StreamSent SendData(FrameSender& connection, uint32_t call_id);
  // Adds a copy of sending_ to kept_, or gives kept_ up if that gets too long.
  void KeepBatch();

  const bool marks_end_;

  // Set before what is held is written: who finds that under the mutex sees it.
  std::atomic<bool> held_{false};
  // The outbox, or no_more_goes_, is not as Fetch() has left it. Written with
  // the mutex held; the poller saves itself the mutex if there is nothing.
  std::atomic<bool> wrote_{false};

  mutable base::Mutex mutex_;
  Batch outbox_ ABSL_GUARDED_BY(mutex_);
  bool no_more_goes_ ABSL_GUARDED_BY(mutex_) = false;  // EndWrites().
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  bool writer_waits_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t max_message_bytes_ ABSL_GUARDED_BY(mutex_) = UINT64_MAX;

  // The poller's.
  Batch sending_;
  bool long_in_frames_ = false;  // The long message is to be sent in DATA.
  uint64_t sent_at_ = 0;         // Bytes of the batch that were sent.
  uint64_t sent_ = 0;            // Bytes, in all.
  uint64_t allowed_ = kStreamWindowBytes;
  bool ends_ = false;      // The writer has ended, and sending_ is the rest.
  bool end_sent_ = false;  // kFlagLastData was sent.
  std::unique_ptr<Kept> kept_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_STREAMS_STREAM_WRITER_H_
