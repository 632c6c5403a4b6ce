// The half of a stream that receives messages.

#ifndef VERBENA_TRANSPORT_STREAMS_STREAM_READER_H_
#define VERBENA_TRANSPORT_STREAMS_STREAM_READER_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "transport/base/byte_buffer.h"
#include "transport/base/limits.h"
#include "transport/memory/buffer_pool.h"
#include "transport/session/frame_sender.h"
#include "transport/streams/long_message.h"
#include "transport/streams/receive_window.h"
#include "transport/streams/stream_inbox.h"
#include "transport/streams/stream_types.h"
#include "transport/wire/frame.h"

namespace verbena::transport {

// Cuts what comes into messages, hands them to the reader, and lets the peer
// send more as they are read. Functions are as those of MessageStream that have
// the same name. Those that take `post` set it if the poller's thread has to
// look at the stream.
class StreamReader {
 public:
  // `grants_longs`: the peer is told how many MESSAGEs it may send.
  StreamReader(uint64_t max_message_bytes, const char* limit_name,
               bool grants_longs)
      : max_message_bytes_(max_message_bytes),
        limit_name_(limit_name),
        grants_longs_(grants_longs) {}

  // --- Reader only ---

  StreamResult Read(StreamMessage* message, bool* post);
  StreamResult Peek(bool* post) {
    MessageHeader header;
    return Next(&header, post);
  }

  // --- Poller thread only ---

  const char* OnData(absl::Span<const uint8_t> body, bool last);
  const char* OnLongMessage(const MessageHeader& lengths,
                            absl::Span<const uint8_t> body,
                            IncomingMessage message);
  void OnRead(uint64_t number) { inbox_.OnRead(number); }
  bool has_received() const {
    return window_.received() > 0 || inbox_.longs_told() > 0;
  }
  // Whether the owner has to hear that there is something to read; once.
  bool TakeWake() { return inbox_.TakeWake(); }

  void LimitMessages(uint64_t bytes, const char* limit_name);
  void Fail(absl::Status failure) { failure_ = std::move(failure); }
  const absl::Status& failure() const { return failure_; }

  bool GrantDue() const {
    return !last_came_ && (window_.GrantDue(AwaitedEnd()) ||
                           (grants_longs_ && NextLongLimit() > longs_granted_));
  }
  // Sends the WINDOW that is due; false if the connection has no room for it.
  bool SendWindow(FrameSender& connection, uint32_t call_id);
  void StartReads(uint32_t call_id, LongMessageCarrier& carrier) {
    inbox_.StartReads(call_id, carrier);
  }
  // Lends the peer memory for its long messages.
  StreamSent SendLease(uint32_t call_id, LongMessageCarrier& carrier);
  void ForgetLeases() { lease_bytes_ = 0; }

  void LeavePool(const BufferPool& pool) { inbox_.LeavePool(pool); }
  void End() {
    part_.Clear(0);
    inbox_.End();
  }

 private:
  // Returns the header of the next message, or of its mark, if that is here.
  StreamResult Next(MessageHeader* header, bool* post);
  StreamResult ReadLong(StreamMessage* message, bool* post);

  // Takes whole messages, as many as there are at the beginning of `body`.
  void TakeMessages(absl::Span<const uint8_t>* body);
  // Takes what there is of one that is not all there.
  void TakePart(absl::Span<const uint8_t>* body);
  // Whether the message with that header is accepted; else sets failure_.
  bool Accept(const MessageHeader& header);
  // Sets failure_, and returns false.
  bool Refuse(uint64_t bytes, const char* limit_name, uint64_t max_bytes);
  // Notes the length of a message that came; a long one adapts lease_bytes_.
  void NoteLong(const MessageHeader& header);
  void FailForMemory();
  // Returns where the message ends that the reader waits for, or 0 if it
  // waits for none that has begun to come.
  uint64_t AwaitedEnd() const { return inbox_.reader_waits() ? part_end_ : 0; }
  uint64_t NextLongLimit() const {
    return inbox_.longs_taken() + kStreamLongMessages;
  }

  const uint64_t max_message_bytes_;  // With its attachment.
  const char* const limit_name_;
  uint64_t max_alone_bytes_ = UINT64_MAX;  // Without it.
  const char* alone_limit_name_ = "";
  // The smaller one of both limits: shorter messages are accepted.
  uint64_t any_limit_bytes_ = max_message_bytes_;
  const bool grants_longs_;

  // Both threads'.
  ReceiveWindow window_;
  StreamInbox inbox_;

  // The reader's.
  base::ByteBuffer reading_;  // Whole messages.
  size_t read_at_ = 0;
  LongMessage reading_long_;  // The one that was read last.
  base::ByteBuffer
      reading_copy_;  // Copy of its message, if the peer may write that.

  // The poller's.
  absl::Status failure_;
  bool last_came_ = false;
  base::ByteBuffer part_;  // Bytes of a message that is not all here.
  // Bytes of the stream up to its end; 0 until its header is here.
  uint64_t part_end_ = 0;
  // Length that a lease should have: that of the longest that came of late. 0
  // if none is wanted.
  uint64_t lease_bytes_ = 0;
  // MESSAGEs that the peer may send, in all.
  uint64_t longs_granted_ = kStreamLongMessages;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_STREAMS_STREAM_READER_H_
