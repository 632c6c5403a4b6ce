#include "transport/streams/message_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {

using base::ByteBuffer;
using base::MutexLock;

// --- The reader and the writer ---

MessageStream::Result MessageStream::Read(Message* message) {
  // The next one may need the memory.
  reading_long_ = LongMessage();
  if (read_at_ == reading_.size()) {
    const Result result = TakeInbox();
    if (result != Result::kDone) return result;
  }
  MessageHeader header;
  const uint8_t* const begin = reading_.data() + read_at_;
  std::memcpy(&header, begin, sizeof(header));
  if (ABSL_PREDICT_FALSE(IsMark(header))) return ReadLong(message);
  message->attachment_buffer = nullptr;
  message->message = {begin + sizeof(header), header.message_bytes};
  message->attachment = {begin + sizeof(header) + header.message_bytes,
                         header.attachment_bytes};
  const size_t bytes =
      sizeof(header) + size_t{header.message_bytes} + header.attachment_bytes;
  read_at_ += bytes;
  const uint64_t consumed = consumed_.load(std::memory_order_relaxed) + bytes;
  consumed_.store(consumed, std::memory_order_release);
  uint64_t post_at = post_at_.load(std::memory_order_relaxed);
  if (post_at == UINT64_MAX) {
    // The poller was told, and may just now say when it wants to hear again.
    // As both exchange the value, either we see that, or it sees what was read.
    post_at = post_at_.fetch_add(0, std::memory_order_acq_rel);
  }
  while (consumed >= post_at) {
    // Once: the poller says anew when it wants to hear again. What it has just
    // said must not be lost.
    if (post_at_.compare_exchange_weak(post_at, UINT64_MAX,
                                       std::memory_order_relaxed)) {
      Post();
      break;
    }
  }
  return Result::kDone;
}

MessageStream::Result MessageStream::Peek() {
  if (read_at_ == reading_.size()) {
    const Result result = TakeInbox();
    if (result != Result::kDone) return result;
  }
  MessageHeader header;
  std::memcpy(&header, reading_.data() + read_at_, sizeof(header));
  return IsMark(header) ? PeekLong() : Result::kDone;
}

MessageStream::Result MessageStream::TakeInbox() {
  reading_.Clear(kKeptBytes);
  read_at_ = 0;
  bool stalled;
  {
    const MutexLock lock(mutex_);
    reading_.Swap(inbox_);
    if (!reading_.empty()) return Result::kDone;
    if (no_more_comes_) return Result::kOver;
    reader_waits_.store(true, std::memory_order_relaxed);
    stalled = stalled_.load(std::memory_order_relaxed);
  }
  if (stalled) Post();
  return Result::kWait;
}

bool MessageStream::Put(uint64_t message_bytes,
                        absl::Span<const uint8_t> attachment,
                        absl::FunctionRef<void(uint8_t*)> write,
                        ByteBuffer* buffer) {
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

MessageStream::Result MessageStream::Write(
    uint64_t message_bytes, absl::Span<const uint8_t> attachment,
    const Buffer* attachment_buffer, Allocate allocate,
    absl::FunctionRef<void(uint8_t*)> write) {
  const uint64_t bytes = message_bytes + attachment.size();
  const bool is_long = bytes > kLongMessageBytes;
  const uint64_t room =
      is_long ? 0 : kStreamOutboxBytes - sizeof(MessageHeader) - bytes;
  {
    const MutexLock lock(mutex_);
    if (over_ || no_more_goes_) return Result::kOver;
    if (outbox_.size() > room || outbox_has_long_) {
      writer_waits_ = true;
      return Result::kWait;
    }
    if (!is_long) {
      if (!Put(message_bytes, attachment, write, &outbox_)) {
        return Result::kNoMemory;
      }
      wrote_.store(true, std::memory_order_release);
    }
  }
  if (is_long) {
    const Result result = WriteLong(message_bytes, attachment,
                                    attachment_buffer, allocate, write);
    if (result != Result::kDone) return result;
  }
  Post();
  return Result::kDone;
}

bool MessageStream::EndWrites() {
  {
    const MutexLock lock(mutex_);
    if (over_) return false;
    if (std::exchange(no_more_goes_, true)) return true;
    wrote_.store(true, std::memory_order_release);
  }
  Post();
  return true;
}

// --- What comes ---

void MessageStream::Run() {
  // Before anything is looked at: what is done from now on is posted again.
  posted_.exchange(false, std::memory_order_acq_rel);
  if (line_ != nullptr) line_->Serve(this);
}

void MessageStream::Open(StreamLine* line, uint32_t call_id) {
  line_ = line;
  call_id_ = call_id;
  line->Serve(this);
}

void MessageStream::ReleaseWrites() {
  held_.store(false, std::memory_order_relaxed);
  if (line_ != nullptr) line_->Serve(this);
}

const char* MessageStream::OnData(absl::Span<const uint8_t> body, bool last) {
  if (last_came_) return "it sent DATA behind its last";
  received_ += body.size();
  if (received_ > granted_) return "it sent more of a stream than it may";
  AdaptWindow();
  while (!body.empty() && failure_.ok()) {
    if (part_.empty()) TakeMessages(&body);
    if (!body.empty() && failure_.ok()) TakePart(&body);
  }
  if (!failure_.ok()) return nullptr;
  if (last && !part_.empty()) {
    return "its last DATA ended in the middle of a message";
  }
  last_came_ = last;
  const bool stalled = part_end_ > granted_;
  if (!last && stalled == stalled_.load(std::memory_order_relaxed)) {
    return nullptr;
  }
  bool waits = false;
  {
    const MutexLock lock(mutex_);
    // The reader looks at it after it has said that it waits.
    stalled_.store(stalled, std::memory_order_relaxed);
    if (last) {
      no_more_comes_ = true;
      waits = StopWaiting();
    }
  }
  WakeReader(waits);
  return nullptr;
}

void MessageStream::AdaptWindow() {
  // The other side has used all that it was allowed, and the reader waits for
  // more: the permission came too late.
  if (received_ == granted_ && reader_waits_.load(std::memory_order_relaxed)) {
    window_ = std::min(2 * window_, kMaxStreamWindowBytes);
  }
}

bool MessageStream::Accept(const MessageHeader& header) {
  const uint64_t bytes =
      uint64_t{header.message_bytes} + header.attachment_bytes;
  if (bytes <= max_message_bytes_) return true;
  failure_ = absl::ResourceExhaustedError(
      absl::StrCat("a message of ", bytes, " bytes in a stream is larger than ",
                   limit_name_, ", ", max_message_bytes_));
  return false;
}

void MessageStream::TakeMessages(absl::Span<const uint8_t>* body) {
  size_t whole = 0;
  MessageHeader header;
  while (body->size() - whole >= sizeof(header)) {
    std::memcpy(&header, body->data() + whole, sizeof(header));
    if (!Accept(header)) return;
    const uint64_t bytes = sizeof(header) + uint64_t{header.message_bytes} +
                           header.attachment_bytes;
    if (bytes > body->size() - whole) break;
    whole += bytes;
  }
  if (whole == 0) return;
  Deliver(body->first(whole));
  body->remove_prefix(whole);
}

void MessageStream::TakePart(absl::Span<const uint8_t>* body) {
  // First the header, alone, then as much of the rest as there is.
  if (part_bytes_ == 0) {
    const size_t header_bytes =
        std::min(body->size(), sizeof(MessageHeader) - part_.size());
    if (!part_.Append(body->first(header_bytes))) return FailForMemory();
    body->remove_prefix(header_bytes);
    if (part_.size() < sizeof(MessageHeader)) return;
    MessageHeader header;
    std::memcpy(&header, part_.data(), sizeof(header));
    if (!Accept(header)) return;
    NoteLong(header);
    part_bytes_ = sizeof(header) + uint64_t{header.message_bytes} +
                  header.attachment_bytes;
    const uint64_t begin = received_ - body->size() - sizeof(header);
    part_end_ = begin + part_bytes_;
    // No more at once than the other side may send: it has only announced it.
    if (!part_.Reserve(std::min(part_bytes_, granted_ - begin))) {
      return FailForMemory();
    }
  }
  const size_t bytes = static_cast<size_t>(
      std::min<uint64_t>(body->size(), part_bytes_ - part_.size()));
  if (!part_.Append(body->first(bytes))) return FailForMemory();
  body->remove_prefix(bytes);
  if (part_.size() == part_bytes_) DeliverPart();
}

void MessageStream::Deliver(absl::Span<const uint8_t> messages) {
  bool waits;
  {
    const MutexLock lock(mutex_);
    if (!inbox_.Append(messages)) return FailForMemory();
    waits = StopWaiting();
  }
  WakeReader(waits);
}

void MessageStream::DeliverPart() {
  part_bytes_ = part_end_ = 0;
  ByteBuffer part = std::move(part_);
  bool waits;
  {
    const MutexLock lock(mutex_);
    if (inbox_.empty()) {
      inbox_.Swap(part);
    } else if (!inbox_.Append(part.span())) {
      return FailForMemory();
    }
    waits = StopWaiting();
  }
  WakeReader(waits);
}

void MessageStream::FailForMemory() {
  failure_ = absl::ResourceExhaustedError(
      "there is no memory for the messages of a stream (see `ulimit -v`)");
}

// --- What goes ---

const char* MessageStream::OnWindow(uint64_t limit) {
  if (limit < allowed_) return "it took back what it had allowed of a stream";
  allowed_ = limit;
  return nullptr;
}

uint64_t MessageStream::NextLimit() const {
  uint64_t limit = consumed_.load(std::memory_order_acquire) + window_;
  if (reader_waits_.load(std::memory_order_relaxed)) {
    limit = std::max(limit, part_end_);
  }
  return limit;
}

bool MessageStream::GrantDue() const {
  if (last_came_) return false;
  return NextLimit() >= granted_ + window_ / 2 ||
         (part_end_ > granted_ &&
          reader_waits_.load(std::memory_order_relaxed)) ||
         (!marks_end_ && NextLongLimit() > longs_granted_);
}

bool MessageStream::SendWindow(Connection& connection) {
  uint8_t* const out =
      connection.BeginFrame(sizeof(WindowHeader), /*spare_credits=*/0);
  if (out == nullptr) return false;
  granted_ = NextLimit();
  // Before the next look at what was read: see Read().
  post_at_.exchange(granted_ - window_ / 2, std::memory_order_acq_rel);
  WindowHeader header = {};
  header.frame = Connection::PlainHeader(FrameType::kWindow, call_id_);
  header.frame.header_bytes = sizeof(header);
  header.limit = granted_;
  if (!marks_end_) header.message_limit = longs_granted_ = NextLongLimit();
  std::memcpy(out, &header, sizeof(header));
  connection.Send(sizeof(header));
  return true;
}

void MessageStream::TakeOutbox() {
  sending_.Clear(kKeptBytes);
  sending_long_ = LongMessage();
  has_long_ = long_in_frames_ = false;
  sent_at_ = 0;
  if (ends_ || !wrote_.load(std::memory_order_acquire)) return;
  bool waits;
  {
    const MutexLock lock(mutex_);
    sending_.Swap(outbox_);
    std::swap(sending_long_, outbox_long_);
    has_long_ = std::exchange(outbox_has_long_, false);
    ends_ = no_more_goes_;
    wrote_.store(false, std::memory_order_relaxed);
    waits = std::exchange(writer_waits_, false);
  }
  if (waits && owner_ != nullptr) owner_->OnWritable();
}

MessageStream::Sent MessageStream::SendFrame(Connection& connection) {
  if (GrantDue()) {
    return SendWindow(connection) ? Sent::kFrame : Sent::kBlocked;
  }
  if (longs_started_ < longs_told_) StartReads();
  if (ABSL_PREDICT_FALSE(lease_bytes_ > 0) && is_open()) {
    const Sent lent = SendLease();
    if (lent != Sent::kNothing) return lent;
  }
  if (sent_at_ == SendingBytes()) TakeOutbox();
  if (held_.load(std::memory_order_relaxed) || !is_open()) {
    return Sent::kNothing;
  }
  if (has_long_ && !long_in_frames_) {
    const Sent sent = SendLong();
    if (sent != Sent::kNothing || !long_in_frames_) return sent;
  }
  const uint64_t left = SendingBytes() - sent_at_;
  const uint32_t bytes = static_cast<uint32_t>(std::min<uint64_t>(
      {left, allowed_ - sent_, connection.SendRoom() - sizeof(FrameHeader)}));
  const bool last = ends_ && marks_end_ && !end_sent_ && bytes == left;
  if (bytes == 0 && !last) return Sent::kNothing;
  uint8_t* const out =
      connection.BeginFrame(static_cast<uint32_t>(sizeof(FrameHeader)) + bytes,
                            connection.RequestReserve());
  if (out == nullptr) return Sent::kBlocked;
  FrameHeader header = Connection::PlainHeader(FrameType::kData, call_id_);
  header.body_bytes = bytes;
  if (last) header.flags = kFlagLastData;
  std::memcpy(out, &header, sizeof(header));
  if (has_long_) {
    CopyOut(bytes, out + sizeof(header));
  } else if (bytes > 0) {
    std::memcpy(out + sizeof(header), sending_.data() + sent_at_, bytes);
  }
  sent_at_ += bytes;
  sent_ += bytes;
  end_sent_ = last;
  connection.Send(static_cast<uint32_t>(sizeof(header)) + bytes);
  return Sent::kFrame;
}

bool MessageStream::sent_all() const {
  return sent_at_ == SendingBytes() &&
         !wrote_.load(std::memory_order_acquire) &&
         (!marks_end_ || !ends_ || end_sent_);
}

void MessageStream::NoteProgress() {
  const bool pending =
      line_ != nullptr && (queued_ || !sent_all() || GrantDue());
  if (pending == pending_) return;
  pending_ = pending;
  if (owner_ != nullptr) owner_->OnPending(pending);
}

void MessageStream::End() {
  line_ = nullptr;
  bool reader_waits;
  bool writer_waits;
  {
    const MutexLock lock(mutex_);
    over_ = no_more_comes_ = true;
    outbox_.Clear(0);
    outbox_long_ = LongMessage();
    outbox_has_long_ = false;
    wrote_.store(false, std::memory_order_relaxed);
    reader_waits = StopWaiting();
    writer_waits = std::exchange(writer_waits_, false);
  }
  sending_.Clear(0);
  sending_long_ = LongMessage();
  has_long_ = false;
  part_.Clear(0);
  sent_at_ = 0;
  NoteProgress();
  WakeReader(reader_waits);
  if (writer_waits && owner_ != nullptr) owner_->OnWritable();
}

}  // namespace verbena::transport
