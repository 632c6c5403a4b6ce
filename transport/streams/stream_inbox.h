// The messages of a stream between the poller's thread and the reader.

#ifndef VERBENA_TRANSPORT_STREAMS_STREAM_INBOX_H_
#define VERBENA_TRANSPORT_STREAMS_STREAM_INBOX_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "transport/base/byte_buffer.h"
#include "transport/base/limits.h"
#include "transport/base/mutex.h"
#include "transport/memory/buffer_pool.h"
#include "transport/streams/long_message.h"
#include "transport/streams/stream_types.h"
#include "transport/wire/frame.h"

namespace verbena::transport {

// Messages that have come whole, in their order. Short ones stand in a buffer,
// each behind its header, which the reader takes as one. For a long one a mark
// stands there, and the message in one of kStreamLongMessages places.
//
// The mutex is held while the bytes of a frame are copied or two buffers are
// exchanged. Longer copies are made with it held in two cases: a long message
// that comes in frames while the reader has not taken the one before it, and
// bytes that leave a pool that is short of memory.
class StreamInbox {
 public:
  // Whether a long message stands where the header is.
  static bool IsMark(const MessageHeader& header) {
    return header.message_bytes == kMark.message_bytes;
  }

  // --- Reader only ---

  // Exchanges `*read`, which is empty, for all that has come. If that is
  // nothing, sets `*post` if the poller's thread has to hear of it.
  StreamResult Take(base::ByteBuffer* read, bool* post);
  // Returns kDone if the long message that comes next is here. Sets `*post` as
  // Take() does.
  StreamResult PeekLong(bool* post);
  // Takes that message, and `*shared` as IncomingMessage has it. The caller has
  // the poller's thread look, as there is room for another.
  LongMessage TakeLong(bool* shared);

  // --- Poller thread only ---

  // Add whole messages, one message, and one that is long. False if there is
  // no memory. The second may exchange `*message` for an empty buffer.
  [[nodiscard]] bool Put(absl::Span<const uint8_t> messages);
  [[nodiscard]] bool Put(base::ByteBuffer* message);
  [[nodiscard]] bool PutLong(IncomingMessage message);

  // Begins to READ the long messages of which there is room for. May close the
  // stream.
  void StartReads(uint32_t call_id, LongMessageCarrier& carrier);
  // A part of the message of that number has been READ.
  void OnRead(uint64_t number);

  // `stalled`: a message has begun to come that the window does not let end.
  // `last`: no message comes any more.
  void NoteState(bool stalled, bool last);
  // As NoteState(false, true); nor are long messages READ any more.
  void End();
  void LeavePool(const BufferPool& pool);

  bool reader_waits() const {
    return reader_waits_.load(std::memory_order_relaxed);
  }
  // Whether the reader waited and has something now; once.
  bool TakeWake() { return std::exchange(wake_, false); }
  // Long messages that have come, and that were taken, in all.
  uint64_t longs_told() const { return longs_told_; }
  uint64_t longs_taken() const {
    return longs_taken_.load(std::memory_order_acquire);
  }

 private:
  // A header that no message can have.
  static constexpr MessageHeader kMark = {UINT32_MAX, UINT32_MAX};

  IncomingMessage& Place(uint64_t number) {
    return (*longs_)[number % kStreamLongMessages];
  }
  void StopWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!reader_waits()) return;
    reader_waits_.store(false, std::memory_order_relaxed);
    wake_ = true;
  }

  base::Mutex mutex_;
  base::ByteBuffer bytes_ ABSL_GUARDED_BY(mutex_);
  bool last_came_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  // By number; null if there never was a long message. The mutex guards the
  // `state` of an element and, while it is kHere, its parts. The rest is for
  // the poller's thread.
  std::unique_ptr<std::array<IncomingMessage, kStreamLongMessages>> longs_;

  // Written with the mutex held.
  std::atomic<bool> reader_waits_{false};
  std::atomic<bool> stalled_{false};

  // Written by the reader.
  std::atomic<uint64_t> longs_taken_{0};
  std::atomic<uint64_t> long_bytes_taken_{0};

  // The poller's.
  bool wake_ = false;
  uint64_t longs_told_ = 0;
  uint64_t longs_started_ = 0;  // They are kReading or kHere, or were taken.
  uint64_t long_bytes_started_ = 0;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_STREAMS_STREAM_INBOX_H_
