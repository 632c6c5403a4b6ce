#include "transport/streams/stream_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/base/optimization.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {
namespace {

using base::MutexLock;

// Appends a message with its header; false if there is no memory.
bool Put(uint64_t message_bytes, absl::Span<const uint8_t> attachment,
         absl::FunctionRef<void(uint8_t*)> write, base::ByteBuffer* buffer) {
  const MessageHeader header = {static_cast<uint32_t>(message_bytes),
                                static_cast<uint32_t>(attachment.size())};
  uint8_t* out =
      buffer->Grow(sizeof(header) + message_bytes + attachment.size());
  if (out == nullptr) return false;
  std::memcpy(out, &header, sizeof(header));
  out += sizeof(header);
  write(out);
  if (!attachment.empty()) {
    std::memcpy(out + message_bytes, attachment.data(), attachment.size());
  }
  return true;
}

}  // namespace

// --- The writer ---

// A short message is written right into the outbox. A long one is accepted only
// if the outbox is empty, and is written outside of the mutex, because that
// takes long.
StreamResult StreamWriter::Write(uint64_t message_bytes,
                                 absl::Span<const uint8_t> attachment,
                                 const Buffer* attachment_buffer,
                                 Allocate allocate,
                                 absl::FunctionRef<void(uint8_t*)> write,
                                 bool* post) {
  const uint64_t bytes = message_bytes + attachment.size();
  const bool is_long = bytes > kLongMessageBytes;
  const uint64_t room =
      is_long ? 0 : kStreamOutboxBytes - sizeof(MessageHeader) - bytes;
  {
    const MutexLock lock(mutex_);
    if (over_ || no_more_goes_) return StreamResult::kOver;
    if (ABSL_PREDICT_FALSE(message_bytes > max_message_bytes_)) {
      return StreamResult::kTooLong;
    }
    if (outbox_.messages.size() > room || outbox_.long_message.has_value()) {
      writer_waits_ = true;
      return StreamResult::kWait;
    }
    if (!is_long) {
      if (!Put(message_bytes, attachment, write, &outbox_.messages)) {
        return StreamResult::kNoMemory;
      }
      *post = NoteWritten();
      return StreamResult::kDone;
    }
  }
  return WriteLong(message_bytes, attachment, attachment_buffer, allocate,
                   write, post);
}

// Writes the message into Buffers before it takes the mutex. There is one
// writer, so nothing else can fill the outbox meanwhile.
StreamResult StreamWriter::WriteLong(uint64_t message_bytes,
                                     absl::Span<const uint8_t> attachment,
                                     const Buffer* attachment_buffer,
                                     Allocate allocate,
                                     absl::FunctionRef<void(uint8_t*)> write,
                                     bool* post) {
  LongMessage written;
  if (message_bytes > 0) {
    written.message = allocate(message_bytes);
    if (written.message.empty()) return StreamResult::kNoMemory;
    write(written.message.data());
  }
  if (attachment_buffer != nullptr) {
    // Bytes that lie in a Buffer already are not copied.
    written.attachment = attachment_buffer->Share();
  } else if (!attachment.empty()) {
    written.attachment = allocate(attachment.size());
    if (written.attachment.empty()) return StreamResult::kNoMemory;
    std::memcpy(written.attachment.data(), attachment.data(),
                attachment.size());
  }
  const MutexLock lock(mutex_);
  // The call may have ended meanwhile, or have got a limit.
  if (over_) return StreamResult::kOver;
  if (message_bytes > max_message_bytes_) return StreamResult::kTooLong;
  outbox_.long_message = std::move(written);
  *post = NoteWritten();
  return StreamResult::kDone;
}

bool StreamWriter::EndWrites(bool* post) {
  const MutexLock lock(mutex_);
  if (over_) return false;
  if (!std::exchange(no_more_goes_, true)) *post = NoteWritten();
  return true;
}

uint64_t StreamWriter::max_message_bytes() const {
  const MutexLock lock(mutex_);
  return max_message_bytes_;
}

// Release: Fetch() and sent_all() look at it without the mutex.
bool StreamWriter::NoteWritten() {
  const bool noted = wrote_.load(std::memory_order_relaxed);
  wrote_.store(true, std::memory_order_release);
  return !noted;
}

// --- On the poller's thread ---

const char* StreamWriter::OnWindow(uint64_t limit) {
  if (limit < allowed_) return "it took back what it had allowed of a stream";
  allowed_ = limit;
  return nullptr;
}

// Later messages are looked at when they are written. Short ones in the outbox
// stand one behind the other.
uint64_t StreamWriter::LimitMessages(uint64_t bytes) {
  const MutexLock lock(mutex_);
  max_message_bytes_ = bytes;
  uint64_t longest = outbox_.long_message.has_value()
                         ? outbox_.long_message->message.size()
                         : 0;
  absl::Span<const uint8_t> left = outbox_.messages.span();
  while (!left.empty()) {
    MessageHeader header;
    std::memcpy(&header, left.data(), sizeof(header));
    longest = std::max<uint64_t>(longest, header.message_bytes);
    left.remove_prefix(sizeof(header) + header.message_bytes +
                       header.attachment_bytes);
  }
  return longest;
}

// Takes the outbox only when all before it is sent, so that many small messages
// share a look at the mutex and a frame.
bool StreamWriter::Fetch() {
  if (sent_at_ < sending_.bytes()) return false;
  sending_.Clear(kKeptBytes);
  long_in_frames_ = false;
  sent_at_ = 0;
  // Acquire, beside the release in Write(). If nothing was written, the mutex
  // is not needed.
  if (ends_ || !wrote_.load(std::memory_order_acquire)) return false;
  bool writer_waits = false;
  {
    const MutexLock lock(mutex_);
    sending_.messages.Swap(outbox_.messages);
    sending_.long_message.swap(outbox_.long_message);
    ends_ = no_more_goes_;
    wrote_.store(false, std::memory_order_relaxed);
    writer_waits = std::exchange(writer_waits_, false);
  }
  if (ABSL_PREDICT_FALSE(kept_ != nullptr)) KeepBatch();
  return writer_waits;
}

// Copies long messages too: they lie where the peer may write, and it must not
// change what goes to the next one.
void StreamWriter::KeepBatch() {
  const uint64_t bytes = sending_.bytes();
  if (bytes == 0) return;
  if (bytes > kept_->max_bytes - kept_->bytes.size()) return StopKeeping();
  uint8_t* const out = kept_->bytes.Grow(bytes);
  if (out == nullptr) return StopKeeping();
  sending_.CopyTo(out, 0, static_cast<uint32_t>(bytes));
}

// All that was kept goes in DATA, as one batch. kept_ has what sending_ had,
// too, because Fetch() keeps a batch before it is sent.
void StreamWriter::Rewind() {
  sending_.Clear(kKeptBytes);
  if (!sending_.messages.Append(kept_->bytes.span())) {
    // Without memory for a second copy it can be sent only once more.
    sending_.messages.Swap(kept_->bytes);
    StopKeeping();
  }
  long_in_frames_ = false;
  sent_at_ = 0;
  sent_ = 0;
  allowed_ = kStreamWindowBytes;
  end_sent_ = false;
}

// Sends a long message beside the DATA, unless the carrier says kInFrames: then
// all of it goes in DATA.
StreamSent StreamWriter::SendFrame(FrameSender& connection, uint32_t call_id,
                                   LongMessageCarrier& carrier) {
  // Relaxed: the writer sets it before it writes what is held, and Fetch() has
  // locked the mutex since.
  if (held_.load(std::memory_order_relaxed)) return StreamSent::kNothing;
  if (sending_.long_message.has_value() && !long_in_frames_) {
    const StreamSent sent = SendLong(call_id, carrier);
    if (sent != StreamSent::kNothing || !long_in_frames_) return sent;
  }
  return SendData(connection, call_id);
}

StreamSent StreamWriter::SendLong(uint32_t call_id,
                                  LongMessageCarrier& carrier) {
  // Sending it may lose the connection, and the stream with that: until the
  // carrier says that it is not sent, the message is in no field.
  LongMessage message = std::move(*sending_.long_message);
  sending_.long_message.reset();
  const LongMessageCarrier::Outcome outcome =
      carrier.SendLong(call_id, &message);
  if (outcome == LongMessageCarrier::Outcome::kSent) return StreamSent::kFrame;
  sending_.long_message = std::move(message);
  long_in_frames_ = outcome == LongMessageCarrier::Outcome::kInFrames;
  return SentOf(outcome);
}

// Sends as many bytes as the batch, the window and the frame have room for. The
// last DATA may be empty.
StreamSent StreamWriter::SendData(FrameSender& connection, uint32_t call_id) {
  const uint64_t left = sending_.bytes() - sent_at_;
  const uint32_t bytes = static_cast<uint32_t>(std::min<uint64_t>(
      {left, allowed_ - sent_, connection.SendRoom() - sizeof(FrameHeader)}));
  const bool last = ends_ && marks_end_ && !end_sent_ && bytes == left;
  if (bytes == 0 && !last) return StreamSent::kNothing;
  uint8_t* const out =
      connection.BeginFrame(static_cast<uint32_t>(sizeof(FrameHeader)) + bytes,
                            connection.credit_flow().RequestReserve());
  // The stream keeps its turn until there is a credit or a buffer.
  if (out == nullptr) return StreamSent::kBlocked;
  FrameHeader header = FrameSender::PlainHeader(FrameType::kData, call_id);
  header.body_bytes = bytes;
  if (last) header.flags = kFlagLastData;
  std::memcpy(out, &header, sizeof(header));
  if (bytes > 0) sending_.CopyTo(out + sizeof(header), sent_at_, bytes);
  // Before Send(), which may lose the connection and the stream with that.
  sent_at_ += bytes;
  sent_ += bytes;
  end_sent_ = last;
  connection.Send(static_cast<uint32_t>(sizeof(header)) + bytes);
  return StreamSent::kFrame;
}

// Takes a long message as if header, message and attachment stood one behind
// the other, and copies what of each lies in the range.
void StreamWriter::Batch::CopyTo(uint8_t* out, uint64_t at,
                                 uint32_t bytes) const {
  if (!long_message.has_value()) {
    std::memcpy(out, messages.span().data() + at, bytes);
    return;
  }
  const MessageHeader header = {
      static_cast<uint32_t>(long_message->message.size()),
      static_cast<uint32_t>(long_message->attachment.size())};
  const absl::Span<const uint8_t> parts[] = {
      {reinterpret_cast<const uint8_t*>(&header), sizeof(header)},
      long_message->message.span(),
      long_message->attachment.span()};
  for (absl::Span<const uint8_t> part : parts) {
    const uint64_t skipped = std::min<uint64_t>(at, part.size());
    part.remove_prefix(skipped);
    at -= skipped;
    const uint32_t taken =
        static_cast<uint32_t>(std::min<uint64_t>(bytes, part.size()));
    if (taken > 0) std::memcpy(out, part.data(), taken);
    out += taken;
    bytes -= taken;
  }
}

void StreamWriter::LeavePool(const BufferPool& pool) {
  const MutexLock lock(mutex_);
  for (Batch* const batch : {&outbox_, &sending_}) {
    if (batch->long_message.has_value()) batch->long_message->LeavePool(pool);
  }
}

bool StreamWriter::End() {
  // Nothing goes any more, so the stream keeps no memory, either.
  sending_.Clear(0);
  sent_at_ = 0;
  StopKeeping();
  const MutexLock lock(mutex_);
  over_ = true;
  outbox_.Clear(0);
  wrote_.store(false, std::memory_order_relaxed);
  return std::exchange(writer_waits_, false);
}

}  // namespace verbena::transport
